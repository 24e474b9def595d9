#include "app/session/session.h"

#include "app/model/model_metadata.h"
#include "app/model/resolve_labels.h"
#include "app/model/running_model.h"
#include "app/pipeline/predictions.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "app/session/zoom.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"
#include "model/device.h"
#include "model/registry/attention_spec.h"
#include "model/training/parallel/launch_environment.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>
#include <utility>

namespace hydrascope::app {
namespace {

/// The model of a request whose errors are about what `about` makes of them.
ModelSource open_as(const ModelRequest& request,
                    const std::function<std::string(const Error&)>& about) {
  try {
    return open_model(request);
  } catch (const Error& error) {
    const std::string subject = about(error);
    if (subject == error.about()) throw;
    throw Error(error.code(), error.what(), subject, error.hint(), error.where());
  }
}

std::vector<float> numbers_of(const at::Tensor& values) {
  const at::Tensor row = values.contiguous();
  const std::span<const float> numbers = values_of(row);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

void fail(InputRecord& record, const Error& error) {
  record.error = error.code();
  record.message = spelled(error.what());
}

PipelineOptions pipeline_options(const RunRequest& request,
                                 const image::TransformConfig& transform) {
  PipelineOptions pipeline;
  pipeline.transform = transform;
  pipeline.decode = request.decode;
  pipeline.workers = loader_workers(request);
  pipeline.batch_size = request.batch_size;
  return pipeline;
}

void refuse_shares() {
  const auto launch = model::training::read_launch_environment();
  if (launch.has_others())
    throw UsageError(
        "pictures are not shared by " + std::to_string(launch.world_size) + " processes",
        "WORLD_SIZE", "run it without torchrun, on a part of the pictures each");
}

std::unique_ptr<Session> Session::open(const PicturesRequest& request) {
  return open(request, open_model(request.model));
}

std::unique_ptr<Session> Session::open(const PicturesRequest& request, ModelSource source) {
  auto session = of(std::move(source), request.transform, request.run, request.console);
  session->labels_word_ = request.labels;
  // Views of zoom have the size that the model is for along their shorter edges.
  if (!session->finder_) session->pipeline_.trained_size = session->source().trained_size;
  return session;
}

std::unique_ptr<Session> Session::of(ModelSource source, const TransformRequest& transform,
                                     RunRequest run, Console console) {
  const auto shared = std::make_shared<const ModelSource>(std::move(source));
  std::unique_ptr<Session> session(new Session(shared, resolve_transform(transform, *shared),
                                               std::move(run), std::move(console)));
  if (session->transform().views.have_parts) session->add_finder(transform);
  return session;
}

void Session::add_finder(const TransformRequest& transform) {
  if (source_->answer)
    throw UsageError("class vectors answer for one view of a picture", "`views` zoom",
                     "`views` whole or native");
  constexpr std::int64_t kEdge = 544;  // the gate was learned on maps of this size
  TransformRequest of_finder;
  of_finder.img_size = {{kEdge, kEdge}, "`views` zoom"};
  of_finder.views = {image::Views::zoom, "`views` zoom"};
  auto source =
      std::make_shared<const ModelSource>(open_model({.word = std::string(kLargePicturesModel)}));
  ResolvedTransform seen = resolve_transform(of_finder, *source);
  RunRequest run = run_;
  run.memory.clear();
  finder_.reset(new Session(std::move(source), std::move(seen), std::move(run), console_));
  TransformRequest of_one = transform;
  of_one.views = {image::Views::whole, "`views` zoom"};
  of_embeddings_ = resolve_transform(of_one, *source_).config;
  of_parts_ = of_embeddings_;
  const std::int64_t edge = std::min(of_parts_.img_size.height, of_parts_.img_size.width);
  of_parts_.img_size = {edge, edge};
  of_parts_.crop_pct = 1;
  of_parts_.crop_mode = image::CropMode::squash;
  pipeline_.finder.emplace(PipelineOptions::Finder{.transform = finder_->transform(),
                                                   .leaves_frames = transform.is_default});
}

Session::Session(std::shared_ptr<const ModelSource> source, ResolvedTransform transform,
                 RunRequest run, Console console)
    : console_(std::move(console)),
      source_(std::move(source)),
      transform_(std::move(transform)),
      run_(std::move(run)),
      pipeline_(pipeline_options(run_, transform_.config)) {
  pipeline_.keep_input = false;
  pipeline_.notice = [this](const std::string& text) { console_.note(text); };
}

std::unique_ptr<Session> Session::open_against(const ModelRequest& model,
                                               const TransformRequest& transform, RunRequest run,
                                               Session& first) {
  ModelSource source = open_as(model, [](const Error& error) {
    const bool is_attn = error.field().starts_with("attn");
    return is_attn ? "`against_" + error.field() + "` " + error.subject() : error.about();
  });
  require_same_classes(first.source(), source, "`against`");
  auto other = of(std::move(source), transform, std::move(run), first.console_);
  other->labels_ = first.labels_;
  other->note_prefix_ += "`against`: ";
  return other;
}

void Session::announce() const {
  for (const std::string& text : source_->notes) note(text);
  const std::string of = note_prefix_.substr(std::string_view("note: ").size());
  transform_.say_assumed(console_, of);
  // Beside records it is no result, so it goes where notes go.
  if (console_.verbose) console_.note((of.empty() ? "" : "against: ") + transform_.describe());
}

void Session::load(const TracedFor& explained, std::vector<std::int64_t> trace_layers) {
  explained_ = explained;
  run_ = with_fastest_precision(run_, model::resolve_device(run_.device), config(), console_);
  const bool explains = !explained_.maps.empty() || explained_.patches || explained_.finds;
  if (finder_) exits_ = model::inference::Exits::off;  // the mixture is of whole answers
  if (explains) trace_layers = MapExplainer::traced_layers(config(), explained_);
  classifier_.emplace(make_classifier(run_, *source_, transform(), console_,
                                      std::move(trace_layers), explained_.embeddings, exits_));
  if (explains) explainer_.emplace(run_.seed, *source_, explained_, classifier_->options());
  facts_ = {};
  facts_.attention = model::to_text(classifier_->config().attention);
  facts_.attention_options = computed_options(classifier_->config());
  facts_.approximations = classifier_->approximations();
  facts_.device = classifier_->options().device.str();
  facts_.precision = classifier_->options().precision.name();
  if (!finder_) return;
  facts_.finder = finder();
  pipeline_.keep_picture = pipeline_.keep_picture || explained.embeddings;
  finder_->exits_ = model::inference::Exits::off;
  finder_->load({.finds = true});
  pipeline_.finder->engine = &finder_->engine();
}

const image::Labels& Session::labels() {
  if (!labels_) labels_ = resolve_labels(labels_word_, *source_).labels;
  return *labels_;
}

const ClassGroups& Session::groups() {
  if (!groups_) groups_.emplace(labels());
  return *groups_;
}

std::vector<Prediction> Session::without_places_of_scenes(std::vector<Prediction> classes) {
  for (Prediction& one : classes) {
    if (!one.box || !groups().is_scene(one.index)) continue;
    one.box.reset();
    one.mark.reset();
  }
  return classes;
}

void Session::hide_for_notes(Progress& progress, double share) {
  pipeline_.notice = [this, &progress](const std::string& text) {
    progress.hide();
    console_.note(text);
  };
  pipeline_.layer_done = [&progress, share](std::int64_t /*done*/, std::int64_t all,
                                            double pictures) {
    progress.add_part(share * pictures / static_cast<double>(all));
  };
}

PipelineTiming Session::run_on(model::inference::Engine& engine, const Inputs& inputs,
                               const Done& done) {
  return run_pipeline(inputs, engine, pipeline_, [&](PipelineResult& result) {
    zoom(result);
    return done(result);
  });
}

PipelineResult Session::look(image::Picture& picture) {
  PipelineResult result = look_at(picture, engine(), pipeline_);
  zoom(result);
  return result;
}

void Session::zoom(PipelineResult& result) {
  if (result.error || !result.seer.is_finder) return;
  try {
    if (pipeline_.check_wanted) pipeline_.check_wanted(result.input);
    const Clock::time_point begin = Clock::now();
    const std::int64_t views =
        app::zoom(result, finder_->explainer_->attention(result), engine(), of_parts_, transform());
    const double seconds = seconds_since(begin);
    if (pipeline_.batch_done) pipeline_.batch_done(views, seconds);
    result.seconds += seconds;
    if (pipeline_.refuses_nan) require_finite_logits(result);
  } catch (...) {
    const Error error = as_error(std::current_exception());
    result.error = error.code();
    result.message = spelled(error.what());
    result.views.clear();
    finish_result(result);
  }
  result.tokens.reset();
  if (!pipeline_.keep_picture || result.error) result.pixels = {};
}

void Session::describe(const PipelineTiming& timing) const {
  if (!console_.verbose) return;
  std::ostringstream text;
  text << "timing: images=" << timing.images << " seconds=" << timing.seconds
       << " decode_core_seconds=" << timing.decode_core_seconds
       << " transform_core_seconds=" << timing.transform_core_seconds
       << " model_seconds=" << timing.model_seconds << " wait_seconds=" << timing.wait_seconds
       << " threads=" << model_threads(run_) << " workers=" << pipeline_.workers;
  console_.detail(text.str());
}

ClassifyRecord Session::record(const PipelineResult& result, std::int64_t topk) {
  const image::Labels& names = labels();
  ClassifyRecord record;
  static_cast<InputRecord&>(record) = facts_;
  record.input = result.input.given;
  record.frame = result.frame;
  record.time = result.time;
  record.error = result.error;
  record.message = spelled(result.message);
  record.width = result.picture.width;
  record.height = result.picture.height;
  record.model_size = {result.model_size.height, result.model_size.width};
  record.note = result.note;
  record.seconds = result.seconds;
  record.batch_size = result.views.empty() ? result.batch_size : 1;
  if (result.error) return record;
  if (!result.views.empty()) {
    record.finder = finder();
    const image::Size& size = result.views.front().plan.output;
    record.model_size = {size.height, size.width};
  }
  record.tokens = engine().num_tokens(record.model_size[0], record.model_size[1]);
  for (const SeenView& view : result.views) {
    const auto best = std::ranges::max_element(view.probabilities);
    const std::int64_t index = best - view.probabilities.begin();
    const image::Label& label = names.at(index);
    record.views.push_back({{.index = index,
                             .id = label.id,
                             .label = label.short_name,
                             .prob = *best,
                             .box = view.box},
                            view.weight});
  }
  if (result.views.empty()) record.exit_layer = result.exit.layer;
  record.top = without_places_of_scenes(top_classes(result, topk, names));
  if (!record.top.empty()) {
    std::vector<double> probabilities;
    for (const ClassScores::Score& one : result.scores.classes())
      probabilities.push_back(one.probability);
    const Prediction& first = record.top.front();
    if (const auto group = groups().answer(probabilities, first.index, kSure))
      record.group = {group->name, group->probability};
    record.unsure = !record.group && !(first.prob >= kSure);
  }
  std::erase_if(record.top,
                [&](const Prediction& one) { return one.logit < source_->least_logit; });
  // A GPU's plan chooses some of them in its first batch.
  if (const std::string kernels = engine().describe().kernels; kernels != "fused")
    record.kernels = kernels;
  return record;
}

Answer Session::answer(const PipelineResult& result, const Question& asked,
                       std::span<const MapChoice> maps, std::span<const std::int64_t> classes,
                       const model::explain::BeforeStep& before_step) {
  Answer answer;
  answer.record = record(result, asked.topk);
  if (result.error) return answer;
  try {
    answer.logits = numbers_of(result.logits);
    if (asked.embeds) answer.embedding = numbers_of(embedding(result));
    if (before_step && (asked.patch || !maps.empty())) before_step(0, 0);
    if (const auto& patch = asked.patch)
      answer.patch_row = explainer_->patch_row(result, patch->layer, patch->row, patch->column);
    if (maps.empty()) return answer;
    answer.maps = explainer_->explain(
        result, without_places_of_scenes(chosen_classes(result, classes, labels())), maps,
        before_step);
  } catch (...) {
    fail(answer.record, as_error(std::current_exception()));
  }
  return answer;
}

/// With `--views zoom` the features of one view, cropped as `embed` does it.
at::Tensor Session::embedding(const PipelineResult& result) {
  if (!finder_) return result.features;
  image::Picture picture = result.pixels;
  PipelineOptions as_embed = pipeline_;
  as_embed.finder.reset();
  as_embed.transform = of_embeddings_;
  const PipelineResult whole = look_at(picture, engine(), as_embed);
  if (whole.error) throw Error(*whole.error, whole.message);
  return whole.features;
}

}  // namespace hydrascope::app
