#include "app/visualize/map_explainer.h"

#include "app/run/explanation_threads.h"

#include <ATen/ops/amax.h>

#include <algorithm>
#include <utility>

namespace hydrascope::app {
namespace {

using model::explain::class_token_share;
using model::explain::Explanation;
using model::explain::Request;

Request request_for(const MapChoice& choice, std::int64_t class_index,
                    model::explain::MaplessLayers mapless) {
  return {choice.method, choice.layer, class_index, choice.head.kind != Head::Kind::mean, mapless};
}

/// Nothing depends on the class until `explain`.
std::vector<Request> requests_for(std::span<const MapChoice> choices,
                                  model::explain::MaplessLayers mapless) {
  std::vector<Request> requests;
  for (const MapChoice& choice : choices) requests.push_back(request_for(choice, 0, mapless));
  return requests;
}

/// The heat of the map or of its prefix tokens: all heads', the largest, or one's.
at::Tensor heat_of(const at::Tensor& heat, const Head& head) {
  if (head.kind == Head::Kind::maximum) return heat.amax(0);
  return head.kind == Head::Kind::one ? heat.select(0, head.index) : heat;
}

viz::HeatMap heat_map(const at::Tensor& heat) {
  const at::Tensor map = heat.contiguous();
  viz::HeatMap result{map.size(0), map.size(1), {}};
  const float* values = map.const_data_ptr<float>();
  result.values.assign(values, values + map.numel());
  return result;
}

}  // namespace

std::vector<std::int64_t> MapExplainer::traced_layers(const model::VitConfig& config,
                                                      std::span<const MapChoice> choices,
                                                      model::explain::MaplessLayers mapless) {
  return model::explain::Explainer::traced_layers(config, requests_for(choices, mapless));
}

MapExplainer::MapExplainer(std::uint64_t seed, const ModelSource& source,
                           std::vector<MapChoice> choices, model::explain::MaplessLayers mapless,
                           c10::Device device)
    : config_(source.config),
      choices_(std::move(choices)),
      mapless_(mapless),
      explainer_(make_explainer(seed, source, requests_for(choices_, mapless), device)) {}

std::vector<InputMap> MapExplainer::explain(const at::Tensor& tokens, const model::TokenGrid& grid,
                                            std::span<const Prediction> classes) {
  std::vector<Request> requests;
  struct Wanted {
    const MapChoice* choice;
    const Prediction* of_class;
    std::size_t request;
  };
  std::vector<Wanted> wanted;
  for (const MapChoice& choice : choices_) {
    const bool of_class = model::explain::entry_of(choice.method).of_class;
    for (const Prediction& one : classes.first(of_class ? classes.size() : 1)) {
      const Request request = request_for(choice, one.index, mapless_);
      // The heads of a layer share one request.
      const auto same = std::ranges::find_if(requests, [&](const Request& other) {
        return other.method == request.method && other.layer == request.layer &&
               other.class_index == request.class_index && other.per_head == request.per_head;
      });
      wanted.push_back({&choice, &one, static_cast<std::size_t>(same - requests.begin())});
      if (same == requests.end()) requests.push_back(request);
    }
  }
  const ExplanationThreads threads(tokens.size(0) * tokens.size(1));
  const std::vector<Explanation> explanations = explainer_.explain(tokens, grid, requests);
  std::vector<InputMap> maps;
  for (const auto& [choice, of_class, request] : wanted) {
    const Explanation& explanation = explanations.at(request);
    const at::Tensor map = heat_of(explanation.map, choice->head);
    const double own_share =
        class_token_share(config_, map, heat_of(explanation.prefix, choice->head));
    maps.push_back({*choice, *of_class, heat_map(map), explanation.is_signed, own_share,
                    explanation.note, explanation.rules});
  }
  return maps;
}

}  // namespace hydrascope::app
