#include "app/session/session.h"

#include "app/model/model_metadata.h"
#include "app/model/resolve_labels.h"
#include "app/model/running_model.h"
#include "app/pipeline/predictions.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "app/session/look_closer.h"
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
  session->pipeline_.trained_size = session->source().trained_size;
  return session;
}

std::unique_ptr<Session> Session::of(ModelSource source, const TransformRequest& transform,
                                     RunRequest run, Console console) {
  const auto shared = std::make_shared<const ModelSource>(std::move(source));
  std::unique_ptr<Session> session(new Session(shared, resolve_transform(transform, *shared),
                                               std::move(run), std::move(console)));
  if (session->transform().views.have_looks) session->add_second_model(transform);
  return session;
}

void Session::add_second_model(const TransformRequest& transform) {
  if (source_->answer)
    throw UsageError("closer looks have a classifier of their own", "`views` look",
                     "`views` whole or native");
  require_attention(config(), source().name);
  std::shared_ptr<const ModelSource> source = source_;
  std::string word = transform.look_model;
  if (word.empty() && is_bundled_model(source->weights.file())) word = kDefaultModel;
  if (!word.empty())
    source = std::make_shared<const ModelSource>(open_as(
        {.word = word}, [](const Error& error) { return "`look_model` " + error.subject(); }));
  require_same_classes(*source_, *source, "`look_model`");
  TransformRequest of_looks;
  of_looks.interpolation = transform.interpolation;
  if (source == source_) {
    of_looks.mean = transform.mean;
    of_looks.std = transform.std;
  }
  of_looks.views = {image::Views::whole, "`views` look"};
  of_embeddings_ = resolve_transform(of_looks, *source).config;
  of_looks.crop_pct = {1, "`views` look"};
  second_.reset(new Session(source, resolve_transform(of_looks, *source), run_, console_));
  second_->note_prefix_ += "`look_model`: ";
  of_looks_ = second_->transform();
  of_looks_.crop_mode = image::CropMode::squash;
  pipeline_.looking.emplace(
      PipelineOptions::Looking{.whole = second_->transform(), .is_default = transform.is_default});
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
  if (second_ && second_->source_ != source_)
    for (const std::string& text : second_->source().notes) second_->note(text);
  const std::string of = note_prefix_.substr(std::string_view("note: ").size());
  transform_.say_assumed(console_, of);
  // Beside records it is no result, so it goes where notes go.
  if (console_.verbose) console_.note((of.empty() ? "" : "against: ") + transform_.describe());
}

void Session::load(const TracedFor& explained, std::vector<std::int64_t> trace_layers) {
  explained_ = explained;
  explained_.looks = second_ != nullptr;
  run_ = with_fastest_precision(run_, model::resolve_device(run_.device), config(), console_);
  const bool explains = !explained_.maps.empty() || explained_.patches || explained_.looks;
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
  if (!second_) return;
  facts_.look_model = look_model();
  pipeline_.keep_picture = pipeline_.keep_picture || explained.embeddings;
  TracedFor of_small = explained;
  std::erase_if(of_small.maps, [this](const MapChoice& map) {
    return !model::explain::why_not(second_->config(), map.method, map.layer, explained_.mapless)
                .empty();
  });
  second_->labels_ = labels();
  second_->exits_ = model::inference::Exits::off;  // the mixture is of whole answers
  second_->load(of_small);
  pipeline_.looking->engine = &second_->engine();
}

const image::Labels& Session::labels() {
  if (!labels_) labels_ = resolve_labels(labels_word_, *source_).labels;
  return *labels_;
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
    look_closer(result);
    return done(result);
  });
}

PipelineResult Session::look(image::Picture& picture) {
  PipelineResult result = look_at(picture, engine(), pipeline_);
  look_closer(result);
  return result;
}

void Session::look_closer(PipelineResult& result) {
  if (!second_ || result.error || result.seer.is_of_small) return;
  try {
    if (pipeline_.check_wanted) pipeline_.check_wanted(result.input);
    const Clock::time_point begin = Clock::now();
    const std::int64_t looks =
        app::look_closer(result, explainer_->attention(result), second_->engine(), of_looks_);
    const double seconds = seconds_since(begin);
    if (pipeline_.batch_done) pipeline_.batch_done(looks, seconds);
    result.seconds += seconds;
    if (pipeline_.refuses_nan) require_finite_logits(result);
  } catch (...) {
    const Error error = as_error(std::current_exception());
    result.error = error.code();
    result.message = spelled(error.what());
    result.closer.reset();
    finish_result(result);
  }
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
  if (second_ && result.seer.is_of_small) return second_->record(result, topk);
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
  if (result.seer.is_of_small) {
    record.views = image::Views::whole;
    if (!result.error) record.seen = box_of(result.plan, result.picture);
  }
  record.note = result.note;
  record.seconds = result.seconds;
  const auto found = [&](const CloserLooks::Place& place) {
    const image::Label& label = names.at(place.index);
    return Prediction{.index = place.index,
                      .id = label.id,
                      .label = label.short_name,
                      .prob = place.probability,
                      .box = place.box};
  };
  if (result.closer) {
    record.views = image::Views::look;
    for (const CloserLooks::Place& look : result.closer->looks)
      record.looks.push_back({found(look), look.weight});
    if (result.closer->thing) record.thing = found(*result.closer->thing);
    record.num_views = 1 + std::ssize(record.looks);
  } else {
    record.batch_size = result.batch_size;
  }
  if (result.error) return record;
  record.tokens = engine().num_tokens(result.model_size.height, result.model_size.width);
  if (!result.closer) record.exit_layer = result.exit.layer;
  record.top = top_classes(result, topk, names);
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
  Session& seer = second_ && result.seer.is_of_small ? *second_ : *this;
  answer.record = seer.record(result, asked.topk);
  if (result.error) return answer;
  try {
    answer.logits = numbers_of(result.logits);
    if (asked.embeds) answer.embedding = numbers_of(embedding(result));
    if (before_step && (asked.patch || !maps.empty())) before_step(0, 0);
    if (const auto& patch = asked.patch)
      answer.patch_row =
          seer.explainer_->patch_row(result, patch->layer, patch->row, patch->column);
    if (maps.empty()) return answer;
    std::vector<MapChoice> known;  // of small pictures perhaps fewer
    std::ranges::copy_if(maps, std::back_inserter(known), [&](const MapChoice& map) {
      return std::ranges::find(seer.explained_.maps, map) != seer.explained_.maps.end();
    });
    if (known.empty())
      throw Error(ErrorCode::failed,
                  seer.source_->name + ", which sees small pictures, has no such map");
    answer.maps = seer.explainer_->explain(result, chosen_classes(result, classes, seer.labels()),
                                           known, before_step);
    for (InputMap& map : answer.maps) map.thing = answer.record.thing;
  } catch (...) {
    fail(answer.record, as_error(std::current_exception()));
  }
  return answer;
}

/// With closer looks the second model's features of one view, cropped as `embed` does it.
at::Tensor Session::embedding(const PipelineResult& result) {
  if (!second_) return result.features;
  image::Picture picture = result.pixels;
  PipelineOptions as_embed = second_->pipeline_;
  as_embed.transform = of_embeddings_;
  const PipelineResult whole = look_at(picture, second_->engine(), as_embed);
  if (whole.error) throw Error(*whole.error, whole.message);
  return whole.features;
}

}  // namespace hydrascope::app
