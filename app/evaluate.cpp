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
#include "app/run/process_team.h"
#include "app/run/signal_stop.h"
#include "kernels/error.h"

#include <ATen/Parallel.h>

#include <iostream>
#include <optional>

namespace hydrascope::app {

int run_evaluate(const ParsedOptions& options) {
  const EvaluateRequest request = evaluate_request(options, jobs_of_evaluate(options));
  check_evaluate_options(options, request.output.format);
  return run_over_set(request);
}

int run_compare(const ParsedOptions& options) {
  if (!compares_models(options)) {
    throw Error(ErrorCode::invalid_argument, "name what to compare with", "compare",
                "--against MODEL; of the same model: --against-attn SPEC, --against-precision");
  }
  return run_over_set(evaluate_request(options, {.command = "compare", .compares = true}));
}

int run_faithfulness(const ParsedOptions& options) {
  return run_over_set(
      evaluate_request(options, {.command = "faithfulness", .measures_maps = true}));
}

int run_diagnose(const ParsedOptions& options) {
  ProcessTeam().refuse("diagnose");
  const EvaluateRequest request =
      evaluate_request(options, {.command = "diagnose", .diagnoses = true});
  const Console& console = request.console;
  const std::string& file = request.output.file;
  // Then the extension says what is written, .html a page.
  const bool by_extension = !file.empty() && file != "-" && !options.given("format");
  if (by_extension) check_diagnostics_file(file, "--output");
  if (!file.empty() && file != "-") check_output_file(file, "--output");
  const std::optional<OpenedModel> opened = open_for_pictures(request);
  if (!opened) return kExitOk;
  const auto& [source, transform] = *opened;
  const LabelledSet set = read_unlabelled(request.words, /*recursive=*/true, "diagnose");
  std::optional<ModelSource> reference;
  if (request.reference) reference = open_reference(request.reference->model, source);
  opened->announce(console, request.transform.is_printed);
  at::set_num_threads(model_threads(request.run));
  const DiagnosticsReport report =
      run_diagnostics(request.run, source, reference ? &*reference : nullptr, set,
                      request.diagnosed_images, transform.config, console);
  if (by_extension) {
    write_diagnostics(report, file, "--output");
  } else {
    OutputFile output(file);
    report.write(request.output.format, output.stream());
    output.close();
  }
  return exit_code_after_stop(report.images == 0 ? kExitFailed : kExitOk);
}

}  // namespace hydrascope::app
