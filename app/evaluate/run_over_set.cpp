#include "app/evaluate/run_over_set.h"

#include "app/command.h"
#include "app/evaluate/diagnostics_run.h"
#include "app/evaluate/evaluated_set.h"
#include "app/evaluate/evaluation.h"
#include "app/evaluate/evaluation_results.h"
#include "app/evaluate/faithfulness.h"
#include "app/evaluate/reference_model.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/pipeline/pipeline.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/process_team.h"
#include "app/run/signal_stop.h"
#include "kernels/error.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

namespace hydrascope::app {
namespace {

void add_run(Summary& summary, const ModelSource& source, const image::TransformConfig& transform,
             const model::Classifier& classifier, const PipelineTiming& timing) {
  summary.add("model", source.name);
  summary.add("attention", model::to_text(source.config.attention));
  if (const auto values = computed_options(source.config); !values.empty())
    summary.add("attention_options", values);
  summary.add_size("img_size", transform.img_size.height, transform.img_size.width);
  summary.add("native", transform.native);
  summary.add("views", image::views_name(transform));
  summary.add("crop_pct", transform.crop_pct, 3);
  summary.add("interpolation", std::string(image::name(transform.interpolation)));
  summary.add("precision", std::string(classifier.options().precision.name()));
  summary.add("device", classifier.options().device.str());
  summary.add("kernels", classifier.describe().kernels);
  if (const auto values = classifier.approximations(); !values.empty())
    summary.add("approximations", values);
  summary.add("images_per_second",
              static_cast<double>(timing.images) / std::max(timing.seconds, 1e-9), 1);
}

}  // namespace

int run_over_set(const ParsedOptions& options, const SetJobs& jobs) {
  ProcessTeam team;
  const std::vector<EarlierSpelling> earlier =
      jobs.scores ? earlier_spellings(options) : std::vector<EarlierSpelling>();
  if (jobs.may_lack_labels()) team.refuse(earlier.empty() ? jobs.command : earlier.front().option);
  const Console console = team.is_first() ? Console(options) : Console(options).errors_only();
  for (const auto& [option, command] : earlier)
    console.note("note: evaluate " + option + " is now hydrascope " + command);
  const Format format = choose_format(options.text("format"), options.text("output"));
  const ModelRequest model = model_request(options);
  const TransformRequest wanted = transform_request(options);
  RunRequest run = run_request(options, AutoExif::as_stored);
  const SetRequest pictures = set_request(options, jobs);
  const ScoreRequest score = jobs.scores ? score_request(options) : ScoreRequest();
  const ModelSource source = open_model(model);
  const ResolvedTransform transform = resolve_transform(wanted, source);
  if (wanted.is_printed && pictures.words.empty()) {
    std::cout << transform.describe() << '\n';
    return kExitOk;
  }
  const image::Labels labels = resolve_labels(options.text("labels"), source).labels;
  const LabelledSet set = read_evaluated_set(pictures, labels, source.config.num_classes);
  std::optional<ReferenceModel> reference;
  if (jobs.compares) {
    reference.emplace(reference_request(options, model, run), wanted, source);
    run = run_beside_reference(options, std::move(run));
  }
  for (const std::string& note : source.notes) console.note("note: " + note);
  if ((wanted.is_printed && team.is_first()) || console.verbose) console.note(transform.describe());
  if (set.is_by_order) {
    console.note(
        "note: no folder is named after a class of the model; taken for its classes in "
        "sorted order");
  }
  console.detail("labels: " + set.rule + ", " + std::to_string(set.pictures.size()) + " pictures");
  std::optional<FaithfulnessPlan> plan;
  if (jobs.measures_maps) plan = plan_faithfulness(options, source.config, transform.config);
  run.launch = team.launch();
  team.join(run.join_timeout);
  model::Classifier classifier =
      make_classifier(run, source, transform.config, console,
                      plan ? plan->traced_layers(source.config) : std::vector<std::int64_t>());
  if (reference) reference->load(console);

  PipelineOptions pipeline = pipeline_options(run, transform.config);
  pipeline.keep_input = plan.has_value();
  std::optional<FaithfulnessRun> faithfulness;
  if (plan) faithfulness.emplace(std::move(*plan), source, classifier, pipeline);
  pipeline.remark_on_size = note_on_large_sizes(source);
  std::optional<OutputFile> output;
  if (team.is_first()) output.emplace(options.text("output"));
  Evaluation evaluation(score, jobs, run.fail_fast, set, classifier, pipeline, console, team);
  evaluation.run(faithfulness ? &*faithfulness : nullptr, reference ? &*reference : nullptr);
  // This ends the other processes, too.
  if (team.has_others() && evaluation.ended_by_failure()) return kExitFailed;
  evaluation.gather();

  const Scores& scores = evaluation.scores();
  const auto exit_code = [&]() -> int {
    if (stop_requested()) return exit_code_after_stop(kExitOk);
    if (score.required_top1 && scores.top1() < *score.required_top1) return kExitCheckFailed;
    if (scores.failed() > 0) return evaluation.fails_fast() ? kExitFailed : kExitSomeInputsFailed;
    return kExitOk;
  };
  if (!team.is_first()) {
    team.wait_for_all();
    return exit_code();
  }
  EvaluationResults results;
  scores.add_accuracy(results.summary);
  add_run(results.summary, source, transform.config, classifier, evaluation.timing());
  if (jobs.scores) scores.add_calibration(results.summary);
  if (reference) {
    reference->add_facts(results.summary);
    scores.add_agreement(results.summary);
  }
  if (faithfulness) results.add(faithfulness->report());
  if (jobs.scores && set.has_labels) add_score_tables(score, scores, labels, results);
  if (jobs.diagnoses) {
    DiagnosticsReport report =
        run_diagnostics(run, source, reference ? &reference->source() : nullptr, set,
                        options.integer("diagnostics-images"), transform.config, console);
    const std::string& file = options.text("diagnostics");
    file == "-" ? results.add(std::move(report)) : write_diagnostics(report, file, "--diagnostics");
  }
  evaluation.write_errors(labels);
  results.write(format, output->stream(), console);
  output->close();
  console.detail(evaluation.timing().describe(model_threads(run), pipeline.workers));
  const int code = exit_code();
  if (code == kExitCheckFailed) {
    std::cerr << "check failed: top-1 is below --require-top1 " << options.text("require-top1")
              << '\n';
  }
  team.wait_for_all();
  return code;
}

}  // namespace hydrascope::app
