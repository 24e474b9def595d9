// hydrascope evaluate, compare, faithfulness and diagnose: how good a model is over a set of
// pictures, how near to another one, how faithful maps are to it, and what its attention is like.
#include "app/command.h"
#include "app/evaluate/diagnostics_run.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/evaluated_set.h"
#include "app/evaluate/reference_model.h"
#include "app/evaluate/run_over_set.h"
#include "app/model/model_source.h"
#include "app/results/format.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/process_team.h"
#include "app/run/signal_stop.h"
#include "kernels/error.h"

#include <ATen/Parallel.h>

#include <iostream>
#include <optional>

namespace hydrascope::app {

int run_evaluate(const ParsedOptions& options) {
  check_evaluate_options(options, choose_format(options.text("format"), options.text("output")));
  return run_over_set(options, jobs_of_evaluate(options));
}

int run_compare(const ParsedOptions& options) {
  if (!compares_models(options)) {
    throw Error(ErrorCode::invalid_argument, "name what to compare with", "compare",
                "--against MODEL; of the same model: --against-attn SPEC, --against-precision");
  }
  return run_over_set(options, {.command = "compare", .compares = true});
}

int run_faithfulness(const ParsedOptions& options) {
  return run_over_set(options, {.command = "faithfulness", .measures_maps = true});
}

int run_diagnose(const ParsedOptions& options) {
  ProcessTeam().refuse("diagnose");
  const Console console(options);
  const std::string& file = options.text("output");
  // Then the extension says what is written, .html a page.
  const bool by_extension = !file.empty() && file != "-" && !options.given("format");
  if (by_extension) check_diagnostics_file(file, "--output");
  if (!file.empty() && file != "-") check_output_file(file, "--output");
  const ModelRequest model = model_request(options);
  const TransformRequest wanted = transform_request(options);
  const RunRequest run = run_request(options, AutoExif::as_stored);
  const std::vector<std::string> words = input_words(options);
  const ModelSource source = open_model(model);
  const ResolvedTransform transform = resolve_transform(wanted, source);
  if (wanted.is_printed && words.empty()) {
    std::cout << transform.describe() << '\n';
    return kExitOk;
  }
  const LabelledSet set = read_unlabelled(words, /*recursive=*/true, "diagnose");
  std::optional<ModelSource> reference;
  if (names_another_model(options))
    reference = open_reference(reference_request(options, model, run).model, source);
  for (const std::string& note : source.notes) console.note("note: " + note);
  if (wanted.is_printed || console.verbose) console.note(transform.describe());
  at::set_num_threads(model_threads(run));
  const DiagnosticsReport report =
      run_diagnostics(run, source, reference ? &*reference : nullptr, set,
                      options.integer("limit-images"), transform.config, console);
  if (by_extension) {
    write_diagnostics(report, file, "--output");
  } else {
    OutputFile output(file);
    report.write(choose_format(options.text("format"), ""), output.stream());
    output.close();
  }
  return exit_code_after_stop(report.images == 0 ? kExitFailed : kExitOk);
}

}  // namespace hydrascope::app
