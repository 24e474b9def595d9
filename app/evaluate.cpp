// hydrascope evaluate, compare, faithfulness and diagnose: how good a model is over a set of
// pictures, how near to another one, how faithful maps are to it, and what its attention is like.
#include "app/command.h"
#include "app/evaluate/diagnostics_run.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/evaluated_set.h"
#include "app/evaluate/evaluation.h"
#include "app/evaluate/evaluation_results.h"
#include "app/evaluate/faithfulness.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/model/precision_check.h"
#include "app/pipeline/pipeline.h"
#include "app/results/format.h"
#include "app/results/json.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/process_team.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "kernels/number_text.h"

#include <ATen/Parallel.h>

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
  summary.add("kernels", classifier.engine().describe().kernels);
  if (const auto values = classifier.approximations(); !values.empty())
    summary.add("approximations", values);
  summary.add("images_per_second",
              timing.images == 0 ? OrderedJson()
                                 : OrderedJson(static_cast<double>(timing.images) /
                                               std::max(timing.seconds, 1e-9)),
              1);
}

void note_stop(const Console& console, std::int64_t done, std::int64_t all) {
  console.note("note: stopped after " + std::to_string(done) + " of " + std::to_string(all) +
               " pictures");
}

/// The pass over a set that `evaluate`, `compare` and `faithfulness` are. Returns the exit code.
int run_over_set(EvaluateRequest request) {
  ProcessTeam team;
  const SetJobs& jobs = request.jobs;
  const auto& earlier = request.earlier;
  if (jobs.may_lack_labels()) team.refuse(earlier.empty() ? jobs.command : earlier.front().option);
  const Console console = team.is_first() ? request.console : request.console.errors_only();
  for (const auto& [option, command] : earlier)
    console.note("note: evaluate " + option + " is now hydrascope " + command);
  RunRequest& run = request.run;
  const ScoreRequest& score = request.score;
  const std::optional<OpenedModel> opened = open_for_pictures(request);
  if (!opened) return kExitOk;
  const auto& [source, transform] = *opened;
  const image::Labels labels = resolve_labels(request.labels, source).labels;
  const LabelledSet set = read_evaluated_set(request.set, labels, source.config.num_classes);
  std::optional<ReferenceModel> reference;
  if (jobs.compares) reference.emplace(std::move(*request.reference), request.transform, source);
  opened->announce(console, request.transform.is_printed && team.is_first());
  for (const std::string& note : set.notes()) console.note(note);
  console.detail("labels: " + set.rule + ", " + std::to_string(set.pictures.size()) + " pictures");
  std::optional<FaithfulnessPlan> plan;
  if (jobs.measures_maps)
    plan = plan_faithfulness(request.faithfulness, run.seed, source.config, transform.config);
  if (run.check_precision) team.refuse("--check-precision");
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
  pipeline.remark_on_size = remark_on_large_sizes(source);
  std::optional<OutputFile> output;
  if (team.is_first()) output.emplace(request.output.file);
  Evaluation evaluation(score, jobs, run.fail_fast, set, classifier, pipeline, console, team);
  PrecisionCheck check(run.check_precision);
  evaluation.watch(check);
  evaluation.run(faithfulness ? &*faithfulness : nullptr, reference ? &*reference : nullptr);
  // This ends the other processes, too.
  if (team.has_others() && evaluation.ended_by_failure()) return kExitFailed;
  evaluation.gather();

  const Scores& scores = evaluation.scores();
  const auto exit_code = [&]() -> int {
    if (stop_requested()) return exit_code_after_stop(kExitOk);
    // Top-1 over no picture is no number, which counts as below every demand.
    if (score.required_top1 && !(scores.top1() >= *score.required_top1)) return kExitCheckFailed;
    if (scores.failed() > 0) return evaluation.fails_fast() ? kExitFailed : kExitSomeInputsFailed;
    return kExitOk;
  };
  if (!team.is_first()) {
    team.wait_for_all();
    return exit_code();
  }
  if (stop_requested()) {
    const std::int64_t done = scores.images() + scores.failed();
    note_stop(console, done, std::ssize(set.pictures));
    if (done == 0) {
      team.wait_for_all();
      return exit_code();
    }
  }
  EvaluationResults results;
  scores.add_accuracy(results.summary);
  add_run(results.summary, source, transform.config, classifier, evaluation.timing());
  if (jobs.scores) scores.add_calibration(results.summary);
  if (check.is_wanted() && !stop_requested()) {
    const PrecisionFindings findings =
        check.compare(run, source, transform.config, /*video_stride=*/0, console);
    console.note(findings.describe());
    results.summary.add("precision_check_images", findings.images);
    results.summary.add("precision_check_flips", findings.flips);
    results.summary.add("precision_check_largest_difference", rounded(findings.largest_difference));
  }
  if (reference) {
    reference->add_facts(results.summary);
    scores.add_agreement(results.summary);
  }
  if (faithfulness) results.add(faithfulness->report());
  if (jobs.scores && set.has_labels) add_score_tables(score, scores, labels, results);
  if (jobs.diagnoses && !stop_requested()) {
    DiagnosticsReport report =
        run_diagnostics(run, source, reference ? &reference->source() : nullptr, set,
                        request.diagnosed_images, transform.config, console);
    const std::string& file = request.diagnostics;
    file == "-" ? results.add(std::move(report)) : write_diagnostics(report, file, "--diagnostics");
  }
  evaluation.write_errors(labels, results.summary);
  results.write(request.output.format, output->stream(), console);
  output->close();
  console.detail(evaluation.timing().describe(model_threads(run), pipeline.workers));
  const int code = exit_code();
  if (code == kExitCheckFailed) {
    std::cerr << "check failed: top-1 is below --require-top1 "
              << shortest_number(*score.required_top1) << '\n';
  }
  team.wait_for_all();
  return code;
}

}  // namespace

int run_evaluate(const ParsedOptions& options) {
  const EvaluateRequest request = evaluate_request(options, jobs_of_evaluate(options));
  check_evaluate_options(options, request.output.format);
  return run_over_set(request);
}

int run_compare(const ParsedOptions& options) {
  if (!compares_models(options)) {
    throw UsageError(
        "name what to compare with", "compare",
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
  const bool by_extension = !is_stream(file) && !options.given("format");
  if (by_extension) check_diagnostics_file(file, "--output");
  if (!is_stream(file)) check_output_file(file, "--output");
  const std::optional<OpenedModel> opened = open_for_pictures(request);
  if (!opened) return kExitOk;
  const auto& [source, transform] = *opened;
  const LabelledSet set = read_unlabelled(request.words, /*recursive=*/true, "diagnose");
  std::optional<ModelSource> reference;
  if (request.reference) reference = open_reference(request.reference->model, source);
  opened->announce(console, request.transform.is_printed);
  for (const std::string& note : set.notes()) console.note(note);
  at::set_num_threads(model_threads(request.run));
  const DiagnosticsReport report =
      run_diagnostics(request.run, source, reference ? &*reference : nullptr, set,
                      request.diagnosed_images, transform.config, console);
  if (stop_requested()) {
    note_stop(console, report.images + report.failed,
              std::min<std::int64_t>(request.diagnosed_images, std::ssize(set.pictures)));
    if (report.images == 0) return exit_code_after_stop(kExitFailed);
  }
  if (by_extension) {
    write_diagnostics(report, file, "--output");
  } else {
    OutputFile output(file);
    report.write(request.output.format, output.stream());
    output.close();
  }
  if (is_rows(request.output.format))  // which have no room for them
    for (const std::string& note : report.notes) console.note("note: " + note);
  return exit_code_after_stop(report.images == 0  ? kExitFailed
                              : report.failed > 0 ? kExitSomeInputsFailed
                                                  : kExitOk);
}

}  // namespace hydrascope::app
