// hydrascope evaluate: how good a model is over a set of pictures, how near to another one, what
// its attention is like, and how faithful maps are to it.
#include "app/command.h"
#include "app/console.h"
#include "app/evaluate/diagnostics_run.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/evaluated_set.h"
#include "app/evaluate/evaluation.h"
#include "app/evaluate/evaluation_results.h"
#include "app/evaluate/reference_model.h"
#include "app/faithfulness.h"
#include "app/model_source.h"
#include "app/pipeline.h"
#include "app/process_team.h"
#include "app/signal_stop.h"

#include <algorithm>
#include <iostream>
#include <optional>

namespace hydrascope::app {
namespace {

void add_run(KeyValueReport& summary, const ModelSource& source,
             const image::TransformConfig& transform, const model::Classifier& classifier,
             const PipelineTiming& timing) {
  summary.add("model", source.name);
  summary.add("attention", model::to_text(source.config.attention));
  if (const auto values = model::attention_options(source.config.attention); !values.empty())
    summary.add_json("attention_options", json_object(values));
  summary.add("img_size",
              std::vector<std::int64_t>{transform.img_size.height, transform.img_size.width});
  summary.add("native", transform.native);
  summary.add("crop_pct", transform.crop_pct, 3);
  summary.add("interpolation", std::string(image::name(transform.interpolation)));
  summary.add("precision", std::string(classifier.options().precision.name()));
  summary.add("device", classifier.options().device.str());
  summary.add("kernels", classifier.kernels());
  if (const auto values = classifier.approximations(); !values.empty())
    summary.add_json("approximations", json_object(values));
  summary.add("images_per_second",
              static_cast<double>(timing.images) / std::max(timing.seconds, 1e-9), 1);
}

int run_evaluate(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  ProcessTeam team;
  team.refuse(options, {"faithfulness", "against", "against-attn", "against-attn-opt",
                        "against-precision", "diagnostics"});
  const Console console = team.is_first() ? Console(options) : Console(options).errors_only();
  const Format format = choose_format(options.text("format"), options.text("output"));
  check_evaluate_options(options, format);
  const ModelSource source = open_model(options);
  const ResolvedTransform transform = resolve_transform(options, source);
  if (options.flag("print-transform") && input_words(options).empty()) {
    std::cout << transform.describe() << '\n';
    return kExitOk;
  }
  const image::Labels labels = resolve_labels(options, source);
  const LabelledSet set = read_evaluated_set(options, labels, source.config.num_classes);
  std::optional<ReferenceModel> reference = open_reference(options, source);
  for (const std::string& note : source.notes) console.note("note: " + note);
  if ((options.flag("print-transform") && team.is_first()) || console.verbose)
    console.note(transform.describe());
  if (set.is_by_order) {
    console.note(
        "note: no folder is named after a class of the model; taken for its classes in "
        "sorted order");
  }
  console.detail("labels: " + set.rule + ", " + std::to_string(set.pictures.size()) + " pictures");
  std::optional<FaithfulnessPlan> plan =
      plan_faithfulness(options, source.config, transform.config);
  team.join(options);
  model::Classifier classifier = make_classifier(
      options_beside_reference(options), source,
      plan ? plan->traced_layers(source.config) : std::vector<std::int64_t>(), team.launch());
  if (reference) reference->load(console);

  PipelineOptions pipeline =
      pipeline_options(options, transform, apply_exif_if_asked(options), team.launch());
  pipeline.keep_input = plan.has_value();
  std::optional<FaithfulnessRun> faithfulness;
  if (plan) faithfulness.emplace(options, std::move(*plan), source, classifier, pipeline);
  std::optional<OutputFile> output;
  if (team.is_first()) output.emplace(options.text("output"));
  Evaluation evaluation(options, set, classifier, pipeline, console, team);
  evaluation.run(faithfulness ? &*faithfulness : nullptr, reference ? &*reference : nullptr);
  // This ends the other processes, too.
  if (team.has_others() && evaluation.ended_by_failure()) return kExitFailed;
  evaluation.gather();

  const Scores& scores = evaluation.scores();
  const auto exit_code = [&]() -> int {
    if (stop_requested()) return exit_code_after_stop(kExitOk);
    if (options.given("require-top1") && scores.top1() < options.number("require-top1"))
      return kExitCheckFailed;
    if (scores.failed() > 0) return evaluation.fails_fast() ? kExitFailed : kExitSomeInputsFailed;
    return kExitOk;
  };
  if (!team.is_first()) {
    team.wait_for_all();
    return exit_code();
  }
  EvaluationResults results;
  results.summary.add("schema", std::int64_t{1});
  scores.add_accuracy(results.summary);
  add_run(results.summary, source, transform.config, classifier, evaluation.timing());
  scores.add_calibration(results.summary);
  if (reference) {
    reference->add_facts(results.summary);
    scores.add_agreement(results.summary);
  }
  if (faithfulness) results.add(faithfulness->report());
  if (set.has_labels) add_score_tables(options, scores, labels, results);
  if (const std::string& file = options.text("diagnostics"); !file.empty()) {
    DiagnosticsReport report =
        run_diagnostics(options, source, reference ? &reference->source() : nullptr, set, pipeline,
                        classifier.options().device, console);
    file == "-" ? results.add(std::move(report)) : write_diagnostics(report, file);
  }
  evaluation.write_errors(labels);
  results.write(format, output->stream(), console);
  output->close();
  console.detail(
      evaluation.timing().describe(model_threads(options, team.launch()), pipeline.workers));
  const int code = exit_code();
  if (code == kExitCheckFailed) {
    std::cerr << "check failed: top-1 is below --require-top1 " << options.text("require-top1")
              << '\n';
  }
  team.wait_for_all();
  return code;
}

}  // namespace

Command evaluate_command() {
  CommandSpec spec;
  spec.name = "evaluate";
  spec.aliases = {"eval", "validate"};
  spec.summary = "scores over a labelled set, agreement of two models, attention diagnostics";
  spec.positionals = "FOLDER";
  spec.options = join({model_options(), input_options(), preprocessing_options(), runtime_options(),
                       launch_options(), output_options(), label_options(), labelled_set_options(),
                       score_options(), agreement_options(), diagnostics_options(),
                       faithfulness_options(), general_options()});
  spec.examples = {
      "hydrascope evaluate imagenet/val",
      "hydrascope evaluate pictures --labels-csv pictures/images.csv --format json",
      "hydrascope evaluate imagenet/val --img-size 384 --require-top1 70",
      "hydrascope evaluate imagenet/val --real-labels real.json --per-class classes.csv",
      "hydrascope evaluate unlabelled -m converted.safetensors --against softmax.safetensors",
      "hydrascope evaluate imagenet/val --attn hedgehog --against-attn softmax --diagnostics "
      "a.html",
      "hydrascope evaluate imagenet/val --limit-images 500 --faithfulness deletion,insertion",
      "torchrun --nproc-per-node 8 --no-python hydrascope evaluate imagenet/val",
  };
  return {std::move(spec), run_evaluate};
}

}  // namespace hydrascope::app
