// hydrascope evaluate, compare, faithfulness and diagnose: how good a model is over a set of
// pictures, how near to another one, how faithful maps are to it, and what its attention is like.
#include "app/command.h"
#include "app/evaluate/diagnostics_report.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/evaluated_set.h"
#include "app/model/model_metadata.h"
#include "app/model/running_model.h"
#include "app/results/format.h"
#include "app/results/json.h"
#include "app/results/report.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/session/map_explainer.h"
#include "app/session/session.h"
#include "app/tasks/evaluation.h"
#include "app/tasks/faithfulness.h"
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/device.h"
#include "model/explain/diagnostics.h"
#include "model/inference/one_torch_thread.h"
#include "model/vision_transformer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

namespace hydrascope::app {
namespace {

void add_run(Summary& summary, Session& session, const PipelineTiming& timing) {
  const ModelSource& source = session.source();
  const image::TransformConfig& transform = session.transform();
  const model::Classifier& classifier = session.classifier();
  summary.add("model", source.name);
  summary.add("attention", model::to_text(source.config.attention));
  if (const auto values = computed_options(source.config); !values.empty())
    summary.add("attention_options", values);
  summary.add_size("img_size", transform.img_size.height, transform.img_size.width);
  summary.add("native", transform.views.keep_size);
  summary.add("views", image::name(transform.views));
  if (const std::string finder = session.finder(); !finder.empty()) summary.add("finder", finder);
  if (transform.views.have_crop) summary.add("crop_pct", transform.crop_pct, 3);
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

/// against, against_attention, against_attention_options, against_img_size, against_precision.
void add_reference(Summary& summary, Session& reference) {
  const image::TransformConfig& transform = reference.transform();
  summary.add("against", reference.source().name);
  summary.add("against_attention", model::to_text(reference.config().attention));
  if (const auto values = computed_options(reference.config()); !values.empty())
    summary.add("against_attention_options", values);
  summary.add_size("against_img_size", transform.img_size.height, transform.img_size.width);
  summary.add("against_precision", std::string(reference.classifier().options().precision.name()));
}

/// The other model, if one is asked for.
std::unique_ptr<Session> open_reference(const EvaluateRequest& request, Session& session) {
  if (!request.reference) return nullptr;
  const auto& [model, run] = *request.reference;
  return Session::open_against(model, request.transform, run, session);
}

void note_stop(const Console& console, std::int64_t done, std::int64_t all) {
  console.note("note: stopped after " + std::to_string(done) + " of " + std::to_string(all) +
               " pictures");
}

constexpr int kThresholdDecimals = 4;

/// Refuses what cannot be calibrated, before anything is read.
void prepare_calibration(Session& session, const LabelledSet& set, double delta) {
  const std::string option = "`calibrate_exit` " + shortest_number(delta);
  if (session.config().exits.empty())
    throw UsageError(
        "the model has no exits", option,
        "`coarse_exits` needs no learning, `hydrascope convert --exits auto` learns some");
  if (session.transform().views.have_parts)
    throw UsageError("an exit is calibrated on one view of each picture", option, "`views` whole");
  if (const std::int64_t fewest = fewest_trials(delta); std::ssize(set.pictures) < fewest)
    throw UsageError("expected at least " + std::to_string(fewest) + " pictures, found " +
                         std::to_string(set.pictures.size()) +
                         ": fewer could not show it if none differed",
                     option);
  session.watch_exits();
}

/// exit_rule, exit_delta, exit_threshold, exit_differing, exit_layers, and the way to keep it.
void add_exit_calibration(const Session& session, const std::vector<ExitTrial>& trials,
                          double delta, Report& results) {
  const model::VitConfig& config = session.config();
  const ExitOutcome found = calibrate_exit(trials, config.exits.size(), delta);
  OrderedJson layers;
  for (std::size_t i = 0; i < found.left.size(); ++i)
    layers[std::to_string(i < config.exits.size() ? config.exits[i] : config.depth - 1)] =
        found.left[i];
  Summary& summary = results.summary;
  summary.add("exit_rule", std::string(name(config.exit_rule)));
  summary.add("exit_delta", delta, kThresholdDecimals);
  summary.add("exit_threshold", found.threshold, kThresholdDecimals);
  summary.add("exit_differing", found.differing);
  summary.add("exit_layers", layers);
  const std::string threshold = fixed(found.threshold, kThresholdDecimals);
  session.note(found.threshold >= 1
                   ? "no threshold keeps to it: no picture may leave early"
                   : "`exit_threshold` " + threshold +
                         " lets pictures leave; `hydrascope convert IN OUT` keeps "
                         "it in a file, beside the same `coarse_exits` and `exit_rule`");
}

/// The standard error of a share of so many pictures, per cent.
double standard_error(double percent, std::int64_t images) {
  constexpr double kAll = 100;
  return std::sqrt(percent * (kAll - percent) / static_cast<double>(images));
}

viz::LineChart calibration_chart(const ResultTable& reliability) {
  viz::LineChart chart{"Calibration", "mean probability of the predicted class",
                       "share that is right", lines_of(reliability, "confidence", "accuracy")};
  chart.lines.push_back({"perfect", {{0, 0}, {1, 1}}, false});
  for (const OrderedJson& bin : reliability.json())
    chart.lines.front().notes.push_back(std::to_string(bin.at("images").get<std::int64_t>()));
  chart.caption = "Each point is a bin of pictures with its number of pictures.";
  return chart;
}

/// Adds the table of `--per-class` or writes it into its file, the table of reliability with its chart, and
/// for the page the classes of the lowest top-1. Throws Error(unwritable).
void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      Report& report) {
  constexpr std::size_t kRows = 20;   // of a page
  constexpr std::int64_t kLeast = 5;  // pictures of a class: of fewer the share says little
  const ConfusionCounts& confusions = scores.confusions();
  if (scores.images() > 0)
    report.figure = {
        fixed(scores.top1(), 1) + " % \u00b1 " +
            fixed(standard_error(scores.top1(), scores.images()), 1),
        "top-1 of " + std::to_string(scores.images()) + " pictures, with its standard error"};
  if (const std::string& file = wanted.per_class; file == "-")
    report.add_table("per_class", "by class", confusions.classes(labels), kMain);
  else if (!file.empty())
    Report::of("by class", confusions.classes(labels)).save(file, "`per_class`");
  report.add_table("", "Classes of the lowest top-1", confusions.classes(labels, kRows, kLeast),
                   kOnPage);
  ResultTable reliability = scores.calibration().reliability();
  report.charts.push_back(calibration_chart(reliability));
  report.add_table("reliability", "Calibration by the predicted class's probability",
                   std::move(reliability), kInJson | kOnPage);
}

/// The pass over a set that `evaluate`, `compare` and `faithfulness` are. Returns the exit code.
int run_over_set(const EvaluateRequest& request) {
  refuse_shares();
  const SetJobs& jobs = request.jobs;
  const Console& console = request.console;
  const ScoreRequest& score = request.score;
  const std::unique_ptr<Session> session = Session::open(request);
  const image::Labels& labels = session->labels();
  const LabelledSet set = read_evaluated_set(request.set, labels, session->config().num_classes);
  const std::unique_ptr<Session> reference = open_reference(request, *session);
  session->announce();
  for (const std::string& note : set.notes()) console.note(note);
  console.detail("labels: " + set.rule + ", " + std::to_string(set.pictures.size()) + " pictures");
  std::optional<FaithfulnessPlan> plan;
  if (jobs.measures_maps)
    plan = plan_faithfulness(request.faithfulness, request.run.seed, session->config());
  if (jobs.calibrates_exit) prepare_calibration(*session, set, *score.exit_delta);
  session->load({}, plan ? plan->traced_layers(session->config()) : std::vector<std::int64_t>());
  if (jobs.compares) {
    reference->announce();
    reference->load();
  }
  session->pipeline().keep_input = plan.has_value();
  std::optional<FaithfulnessRun> faithfulness;
  if (plan) faithfulness.emplace(std::move(*plan), *session);
  OutputFile output(request.output.file);
  Evaluation evaluation(score, jobs, set, *session, faithfulness ? &*faithfulness : nullptr,
                        jobs.compares ? reference.get() : nullptr);
  evaluation.run();

  const Scores& scores = evaluation.scores();
  const auto notice = [&](const std::string& note) { console.note(note); };
  const auto exit_code = [&]() -> int {
    if (stop_requested()) return exit_code_after_stop(kExitOk);
    // Top-1 over no picture is no number, which counts as below every demand.
    if (score.required_top1 && !(scores.top1() >= *score.required_top1)) return kExitCheckFailed;
    if (scores.failed() > 0) return request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
    return kExitOk;
  };
  if (stop_requested()) {
    const std::int64_t done = scores.images() + scores.failed();
    note_stop(console, done, std::ssize(set.pictures));
    if (done == 0) return exit_code();
  }
  Report results("hydrascope " + jobs.command + ": " + session->source().name);
  results.line = session->facts().attention + " \u00b7 " + session->facts().precision + " \u00b7 " +
                 session->facts().device + " \u00b7 " + std::to_string(scores.images()) +
                 " pictures";
  scores.add_accuracy(results.summary);
  add_run(results.summary, *session, evaluation.timing());
  if (jobs.scores && set.has_labels) scores.add_calibration(results.summary);
  if (!evaluation.exit_layers().empty()) {
    OrderedJson layers;
    for (const auto& [layer, pictures] : evaluation.exit_layers())
      layers[std::to_string(layer)] = pictures;
    results.summary.add("exit_rule", std::string(name(session->config().exit_rule)));
    results.summary.add("exit_threshold", session->config().exit_threshold, kThresholdDecimals);
    results.summary.add("exit_layers", layers);
  }
  if (jobs.calibrates_exit)
    add_exit_calibration(*session, evaluation.exit_trials(), *score.exit_delta, results);
  if (jobs.compares) {
    add_reference(results.summary, *reference);
    scores.add_agreement(results.summary);
  }
  if (faithfulness) results.add_part("faithfulness", faithfulness->report().report());
  if (jobs.scores && set.has_labels) add_score_tables(score, scores, labels, results);
  results.galleries = [&] { return evaluation.surest_errors(labels); };
  if (!score.html.empty()) results.save(score.html, "`html`");
  results.write(request.output.format, output.stream(), notice);
  output.close();
  session->describe(evaluation.timing());
  const int code = exit_code();
  if (code == kExitCheckFailed) {
    std::cerr << "check failed: top-1 is below --require-top1 "
              << shortest_number(*score.required_top1) << '\n';
  }
  return code;
}

model::VisionTransformer load_modules(const Session& session, c10::Device device) {
  const ModelSource& source = session.source();
  model::seed_generators(session.run_request().seed);
  model::VisionTransformer modules(source.config, model::Initialisation::for_loading);
  source.weights.load_into(*modules, source.head);
  modules->eval();
  for (at::Tensor& parameter : modules->parameters()) parameter.set_requires_grad(false);
  modules->to(at::kFloat);
  modules->to(device);
  return modules;
}

/// For pictures whose input alone is wanted.
class NoModel final : public model::inference::Engine {
 public:
  explicit NoModel(const model::VitConfig& config) : Engine(config) {}

 private:
  model::inference::EngineOutputs run(const model::inference::ImageBatch& batch) override {
    return {at::zeros({batch.size(), 1}), {}};
  }
};

/// means: (depth, H + 1, diagnostics), the layer's own row last.
std::vector<DiagnosticsReport::Row> rows_of(const at::Tensor& means,
                                            const model::VitConfig& config) {
  std::vector<DiagnosticsReport::Row> rows;
  const std::int64_t heads = means.size(1) - 1;
  for (std::int64_t layer = 0; layer < means.size(0); ++layer) {
    for (std::int64_t head = -1; head < heads; ++head) {
      const at::Tensor numbers = means[layer][head < 0 ? heads : head].contiguous();
      const double* values = numbers.const_data_ptr<double>();
      rows.push_back(
          {layer, config.attention_of(layer).mechanism, head, {values, values + numbers.numel()}});
    }
  }
  return rows;
}

/// Over `images` of the set's pictures, evenly spread, by modules in float32 on its device, of which
/// neither session has to be loaded; `reference` may be null. Pictures that cannot be read are left
/// out with a note. Ends early when a stop is requested.
DiagnosticsReport run_diagnostics(Session& session, const Session* reference, LabelledSet set,
                                  std::int64_t images) {
  const ModelSource& source = session.source();
  const c10::Device device = model::resolve_device(session.run_request().device);
  DiagnosticsReport report;
  report.model = source.name;
  report.attention = model::to_text(source.config.attention);
  if (reference != nullptr &&
      !model::explain::AttentionDiagnostics::comparable(source.config, reference->config())) {
    report.notes.push_back("layers are not compared: " + reference->source().name +
                           " has another shape");
    reference = nullptr;
  }
  model::VisionTransformer modules = load_modules(session, device);
  model::VisionTransformer reference_modules{nullptr};
  if (reference != nullptr) {
    report.against = reference->source().name;
    report.against_attention = model::to_text(reference->config().attention);
    reference_modules = load_modules(*reference, device);
  }
  model::explain::AttentionDiagnostics diagnostics(
      *modules, reference == nullptr ? nullptr : &*reference_modules);
  thin_out(set, static_cast<std::size_t>(images));
  NoModel none(source.config);
  std::vector<Input> inputs;
  for (const LabelledPicture& picture : set.pictures) inputs.push_back(input_of(picture));
  Progress progress("diagnostics", std::ssize(set.pictures), session.console().progress);
  session.hide_for_notes(progress);
  session.pipeline().keep_input = true;
  session.pipeline().trained_size.reset();  // it is not classified
  session.run_on(none, one_by_one(std::move(inputs)), [&](const PipelineResult& result) {
    try {
      if (result.error) throw Error(*result.error, result.message);
      const image::Size& size = result.model_size;
      const model::inference::OneTorchThread one(
          has_few_tokens(source.config.depth * none.num_tokens(size.height, size.width)));
      diagnostics.add(result.tensor);
    } catch (const Error& error) {
      ++report.failed;
      session.pipeline().notice("note: not in the diagnostics: " +
                                printable(result.input.given + ": " + error.what()));
    }
    progress.advance();
    return true;
  });
  progress.finish();
  report.images = diagnostics.images();
  report.queries = diagnostics.queries();
  for (const model::explain::DiagnosticEntry& entry : model::explain::diagnostics()) {
    report.columns.push_back(
        {std::string(entry.name), std::string(entry.title), std::string(entry.summary)});
  }
  if (report.images == 0)
    report.notes.push_back("none of the pictures could be looked at");
  else
    report.rows = rows_of(diagnostics.means(), source.config);
  report.drop_empty_columns();
  return report;
}

}  // namespace

int run_evaluate(const ParsedOptions& options) {
  const EvaluateRequest request =
      evaluate_request(options, {.command = "evaluate", .scores = true});
  check_evaluate_options(options);
  return run_over_set(request);
}

int run_compare(const ParsedOptions& options) {
  if (!compares_models(options)) {
    throw UsageError(
        "name what to compare with", "compare",
        "`against` MODEL; of the same model: `against_attn` SPEC, `against_precision`");
  }
  return run_over_set(evaluate_request(options, {.command = "compare", .compares = true}));
}

int run_faithfulness(const ParsedOptions& options) {
  return run_over_set(
      evaluate_request(options, {.command = "faithfulness", .measures_maps = true}));
}

int run_diagnose(const ParsedOptions& options) {
  refuse_shares();
  const EvaluateRequest request =
      evaluate_request(options, {.command = "diagnose", .diagnoses = true});
  const Console& console = request.console;
  const std::string& file = request.output.file;
  if (!is_stream(file) && !options.given(&OutputRequest::format))
    check_extension(file, "`output`", {".json", ".jsonl", ".csv", ".md", ".html", ".txt"});
  if (!is_stream(file)) check_output_file(file, "`output`");
  const std::unique_ptr<Session> session = Session::open(request);
  const LabelledSet set = read_unlabelled(request.words, /*recursive=*/true, "diagnose");
  const std::unique_ptr<Session> reference = open_reference(request, *session);
  session->announce();
  for (const std::string& note : set.notes()) console.note(note);
  at::set_num_threads(model_threads(request.run));
  const DiagnosticsReport report =
      run_diagnostics(*session, reference.get(), set, request.diagnosed_images);
  if (stop_requested()) {
    note_stop(console, report.images + report.failed,
              std::min<std::int64_t>(request.diagnosed_images, std::ssize(set.pictures)));
    if (report.images == 0) return exit_code_after_stop(kExitFailed);
  }
  OutputFile output(file);
  report.report().write(request.output.format, output.stream(),
                        [&](const std::string& note) { console.note(note); });
  output.close();
  return exit_code_after_stop(report.images == 0  ? kExitFailed
                              : report.failed > 0 ? kExitSomeInputsFailed
                                                  : kExitOk);
}

}  // namespace hydrascope::app
