#include "app/visualize/other_model.h"

#include "app/evaluate/evaluation.h"
#include "app/pipeline/predictions.h"
#include "kernels/error.h"

#include <iterator>
#include <utility>

namespace hydrascope::app {
namespace {

/// Method by method: one that the model does not have is no reason to show none.
MapSelection maps_at_hand(const model::VitConfig& config, const MapWords& words) {
  std::vector<std::string> methods = words.methods;
  if (methods.empty()) methods.emplace_back("hydra");
  MapSelection all;
  std::optional<Error> refusal;
  for (const std::string& method : methods) {
    MapWords one = words;
    one.methods = {method};
    try {
      MapSelection selection = choose_maps(config, one);
      std::ranges::move(selection.maps, std::back_inserter(all.maps));
      std::ranges::move(selection.notes, std::back_inserter(all.notes));
    } catch (const Error& error) {
      all.notes.push_back(method + " left out: " + error.what());
      if (!refusal) refusal = error;
    }
  }
  if (all.maps.empty()) throw Error(*refusal);
  return all;
}

}  // namespace

OtherModel::OtherModel(const ModelRequest& request, const TransformRequest& transform,
                       const ModelSource& first, const MapWords& words)
    : source_(open_reference(request, first)),
      transform_(resolve_transform(transform, source_)),
      selection_(maps_at_hand(source_.config, words)),
      mapless_(words.mapless) {}

void OtherModel::load(const RunRequest& run, const Console& console) {
  for (const auto* notes : {&source_.notes, &selection_.notes})
    for (const std::string& note : *notes) console.note("note: --against: " + note);
  transform_.say_assumed(console, "--against: ");
  console.detail("against: " + transform_.describe());
  const TracedFor wanted{selection_.maps, mapless_};
  classifier_.emplace(make_classifier(run, source_, transform_.config, console,
                                      MapExplainer::traced_layers(source_.config, wanted)));
  explainer_.emplace(run.seed, source_, wanted, classifier_->options().device);
}

ModelAnswer OtherModel::explain(const image::Picture& picture,
                                std::span<const std::int64_t> classes, std::int64_t num_best,
                                const image::Labels& labels, const FigureOptions& figure,
                                std::int64_t max_pixels) {
  PipelineResult result;
  result.picture = {picture.height, picture.width};
  const image::TransformPlan plan =
      image::plan_transform(transform_.config, result.picture, max_pixels);
  const at::Tensor pixels = image::transform_pixels(transform_.config, picture, plan);
  const at::Tensor images = image::normalise(transform_.config, pixels, plan.output).unsqueeze(0);
  const model::inference::EngineOutputs outputs = classifier_->engine().compute(images);
  result.logits = outputs.logits.select(0, 0);
  require_finite_logits(result);
  if (result.error) throw Error(*result.error, result.message, source_.name);

  ModelAnswer answer;
  answer.placement = placement_of(plan, result.picture, source_.config.patch_size);
  answer.top = top_classes(result, num_best, labels);
  result.tokens = outputs.tokens.select(0, 0);
  answer.maps = explainer_->explain(result, answer.placement,
                                    chosen_classes(result, classes, labels), selection_.maps);
  for (const InputMap& map : answer.maps) answer.shown.push_back(shown_map(map, figure));
  return answer;
}

std::vector<std::string> names_of_two(const ModelSource& one, const ModelSource& other) {
  if (one.name != other.name) return {one.name, other.name};
  std::vector<std::string> names;
  for (const ModelSource* model : {&one, &other})
    names.push_back(model->name + ", " + model::to_text(model->config.attention));
  return names;
}

}  // namespace hydrascope::app
