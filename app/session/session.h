// A model that looks at pictures: opened once, with how it sees them, what its classes are called,
// what runs it and what explains it. Every command that looks at pictures asks a session.
#pragma once

#include "app/model/model_source.h"
#include "app/model/resolved_transform.h"
#include "app/options/requests.h"
#include "app/pipeline/pipeline.h"
#include "app/run/console.h"
#include "app/run/progress.h"
#include "app/scores/class_groups.h"
#include "app/session/answer.h"
#include "app/session/map_explainer.h"
#include "model/image/labels.h"
#include "model/inference/classifier.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The options of a pipeline: transform, limits, workers, batch size.
PipelineOptions pipeline_options(const RunRequest& request,
                                 const image::TransformConfig& transform);

class Session {
 public:
  using Inputs = std::function<std::optional<Input>()>;
  using Done = std::function<bool(PipelineResult&)>;

  /// Opens what a command asks for; no weight is read before `load`.
  static std::unique_ptr<Session> open(const PicturesRequest& request);
  /// The same of a model that is open already.
  static std::unique_ptr<Session> open(const PicturesRequest& request, ModelSource source);
  /// A model to measure, or to check: it says nothing of sizes. With `--views zoom` the bundled window model finds the
  /// parts of large pictures that it is given.
  static std::unique_ptr<Session> of(ModelSource source, const TransformRequest& transform,
                                     RunRequest run, Console console);
  /// The other model of a comparison, beside `first`, whose labels it has. Its notes begin with
  /// "--against: ". Throws Error(invalid_argument) for one of other classes.
  static std::unique_ptr<Session> open_against(const ModelRequest& model,
                                               const TransformRequest& transform, RunRequest run,
                                               Session& first);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Says what the user must know of the model, and with --verbose, or where it is asked for, the
  /// transform.
  void announce() const;
  void note(const std::string& text) const { console_.note(note_prefix_ + text); }
  /// Loads the weights, with notes on what the user must know. The tokens that enter the layers of
  /// the maps and of `trace_layers` are kept.
  void load(const TracedFor& explained = {}, std::vector<std::int64_t> trace_layers = {});
  /// Before `load`: the whole model answers, and results have what all exits find.
  void watch_exits() { exits_ = model::inference::Exits::watch; }

  [[nodiscard]] const ModelSource& source() const noexcept { return *source_; }
  [[nodiscard]] const model::VitConfig& config() const noexcept { return source_->config; }
  [[nodiscard]] const image::TransformConfig& transform() const noexcept {
    return transform_.config;
  }
  /// The model that finds the parts of large pictures; "" where none does.
  [[nodiscard]] std::string finder() const { return finder_ ? finder_->source().name : ""; }
  /// As it was asked for; once it is loaded, in the precision that `auto` stands for.
  [[nodiscard]] const RunRequest& run_request() const noexcept { return run_; }
  [[nodiscard]] const Console& console() const noexcept { return console_; }
  /// Throws what `resolve_labels` throws.
  const image::Labels& labels();
  const ClassGroups& groups();

  // Loaded parts.
  [[nodiscard]] model::Classifier& classifier() { return *classifier_; }
  [[nodiscard]] model::inference::Engine& engine() const { return classifier_->engine(); }
  /// Facts of the records of all inputs: attention, approximations, device, precision.
  [[nodiscard]] const InputRecord& facts() const noexcept { return facts_; }
  /// The maps, and what else the session was loaded for.
  [[nodiscard]] const TracedFor& explained() const noexcept { return explained_; }

  /// For `run`; results have no `tensor` unless a command asks for it here.
  [[nodiscard]] PipelineOptions& pipeline() noexcept { return pipeline_; }
  /// That progress shows how far `run` is, whose pictures are `share` of the work at them, and makes room for
  /// its notes.
  void hide_for_notes(Progress& progress, double share = 1);
  /// Every picture through the model: `run_pipeline`.
  PipelineTiming run(const Inputs& inputs, const Done& done) {
    return run_on(engine(), inputs, done);
  }
  /// The same with what another engine computes.
  PipelineTiming run_on(model::inference::Engine& engine, const Inputs& inputs, const Done& done);
  /// A picture that is decoded, on the calling thread: `look_at`.
  PipelineResult look(image::Picture& picture);
  /// --verbose says where the time went.
  void describe(const PipelineTiming& timing) const;

  /// The record of a result, with the `topk` best classes.
  ClassifyRecord record(const PipelineResult& result, std::int64_t topk);
  /// The record and all that is asked, with `maps` of `classes` (indices), for a result of this session. A failure is
  /// the record's error. `before_step` is called between the steps of the work, which it ends by an exception; it may be
  /// empty.
  Answer answer(const PipelineResult& result, const Question& asked,
                std::span<const MapChoice> maps, std::span<const std::int64_t> classes,
                const model::explain::BeforeStep& before_step = {});
  /// `MapExplainer::patch_tokens`.
  at::Tensor patch_tokens(const PipelineResult& result) { return explainer_->patch_tokens(result); }

 private:
  Session(std::shared_ptr<const ModelSource> source, ResolvedTransform transform, RunRequest run,
          Console console);
  at::Tensor embedding(const PipelineResult& result);
  /// A scene is no object: it has no place in the picture.
  std::vector<Prediction> without_places_of_scenes(std::vector<Prediction> classes);
  void add_finder(const TransformRequest& transform);
  /// Answers by the parts of a picture that the finder has seen.
  void zoom(PipelineResult& result);

  Console console_;
  std::shared_ptr<const ModelSource> source_;
  ResolvedTransform transform_;
  RunRequest run_;
  std::string labels_word_;
  std::string note_prefix_ = "note: ";
  std::optional<image::Labels> labels_;
  std::optional<ClassGroups> groups_;
  PipelineOptions pipeline_;
  std::optional<model::Classifier> classifier_;
  model::inference::Exits exits_ = model::inference::Exits::leave;
  TracedFor explained_;
  std::optional<MapExplainer> explainer_;
  std::unique_ptr<Session> finder_;
  image::TransformConfig of_parts_ = {};       // of a large picture
  image::TransformConfig of_embeddings_ = {};  // of a whole picture
  InputRecord facts_;
};

/// For commands whose results torchrun's processes would all write. Throws UsageError where there are
/// several processes.
void refuse_shares();
void fail(InputRecord& record, const Error& error);

}  // namespace hydrascope::app
