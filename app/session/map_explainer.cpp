#include "app/session/map_explainer.h"

#include "app/model/running_model.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "model/inference/one_torch_thread.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace hydrascope::app {
namespace {

using model::explain::class_token_share;
using model::explain::Explanation;
using model::explain::memory_share;
using model::explain::Request;
using model::inference::OneTorchThread;

Request request_for(const MapChoice& choice, std::int64_t class_index,
                    model::explain::MaplessLayers mapless) {
  return {choice.method, choice.layer, class_index, choice.head.kind != Head::Kind::mean, mapless};
}

std::vector<Request> requests_of_looks(std::int64_t depth) {
  std::vector<Request> requests;
  for (std::int64_t layer = depth / 2; layer < depth; ++layer)
    requests.push_back({model::explain::Method::attention, layer});
  return requests;
}

/// Nothing depends on the class until `explain`.
std::vector<Request> requests_for(const TracedFor& wanted, std::int64_t depth) {
  std::vector<Request> requests;
  for (const MapChoice& choice : wanted.maps)
    requests.push_back(request_for(choice, 0, wanted.mapless));
  if (wanted.patches) requests.push_back({model::explain::Method::hydra, depth - 1});
  if (wanted.looks) std::ranges::copy(requests_of_looks(depth), std::back_inserter(requests));
  return requests;
}

/// Keeps the map of a token that attends to no patch from being no number.
constexpr double kNearlyNothing = 1e-30;

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

void require_attention(const model::VitConfig& config, const std::string& name) {
  const std::string hint = "-m " + std::string(kLargePicturesModel) + " can";
  if (!config.class_token || config.global_pool != model::Pooling::token)
    throw UsageError("has no class token whose attention says where to look closer", name, hint);
  for (const Request& request : requests_of_looks(config.depth)) {
    const std::string why = model::explain::why_not(config, request.method, request.layer);
    if (!why.empty())
      throw UsageError("has no attention map in layer " + std::to_string(request.layer) +
                           " that says where to look closer: " + why,
                       name, hint);
  }
}

std::vector<std::int64_t> MapExplainer::traced_layers(const model::VitConfig& config,
                                                      const TracedFor& wanted) {
  return model::explain::Explainer::traced_layers(config, requests_for(wanted, config.depth));
}

MapExplainer::MapExplainer(std::uint64_t seed, const ModelSource& source, TracedFor wanted,
                           const model::inference::InferenceOptions& classifier)
    : config_(source.config),
      wanted_(std::move(wanted)),
      class_vectors_of_(source.class_vectors_of),
      remembers_(!classifier.memory.empty()),
      explainer_(make_explainer(seed, source, requests_for(wanted_, config_.depth), classifier)) {}

model::TokenGrid MapExplainer::grid_of(const image::TransformPlan& plan) const {
  return config_.token_grid(plan.output.height / config_.patch_size,
                            plan.output.width / config_.patch_size);
}

viz::HeatMap MapExplainer::patch_row(const PipelineResult& result, std::int64_t layer,
                                     std::int64_t row, std::int64_t column) {
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  return heat_map(explainer_.patch_row(result.tokens, grid_of(result.plan), layer, row, column));
}

look::AttentionMap MapExplainer::attention(const PipelineResult& result) {
  const model::TokenGrid grid = grid_of(result.plan);
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  at::Tensor sum = at::zeros({grid.rows, grid.columns}, at::kDouble);
  for (const Explanation& layer :
       explainer_.explain(result.tokens, grid, requests_of_looks(config_.depth)))
    sum += layer.map.clamp_min(0);  // some mechanisms' maps have signs
  look::AttentionMap map{grid.rows, grid.columns, config_.patch_size};
  const at::Tensor mean = (sum + kNearlyNothing) / (sum + kNearlyNothing).sum();
  map.values.assign(mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + mean.numel());
  return map;
}

at::Tensor MapExplainer::patch_tokens(const PipelineResult& result) {
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  return explainer_.patch_tokens(result.tokens, grid_of(result.plan));
}

std::vector<InputMap> MapExplainer::explain(const PipelineResult& result,
                                            std::span<const Prediction> classes,
                                            std::span<const MapChoice> choices,
                                            const model::explain::BeforeStep& before_step) {
  if (!frames_.follows(result)) explainer_.forget();
  if (class_vectors_of_) explainer_.set_class_vectors(class_vectors_of_(result.features));
  if (classes.empty()) return {};
  std::vector<Request> requests;
  struct Wanted {
    const MapChoice* choice;
    const Prediction* of_class;
    std::size_t request;
  };
  std::vector<Wanted> wanted;
  for (const MapChoice& choice : choices) {
    const bool of_class = model::explain::entry_of(choice.method).of_class;
    for (const Prediction& one : classes.first(of_class ? classes.size() : 1)) {
      const Request request = request_for(choice, one.index, wanted_.mapless);
      // The heads of a layer share one request.
      const auto same = std::ranges::find_if(requests, [&](const Request& other) {
        return other.method == request.method && other.layer == request.layer &&
               other.class_index == request.class_index && other.per_head == request.per_head;
      });
      wanted.push_back({&choice, &one, static_cast<std::size_t>(same - requests.begin())});
      if (same == requests.end()) requests.push_back(request);
    }
  }
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  const std::vector<Explanation> explanations =
      explainer_.explain(result.tokens, grid_of(result.plan), requests, before_step);
  std::vector<InputMap> maps;
  for (const auto& [choice, of_class, request] : wanted) {
    const Explanation& explanation = explanations.at(request);
    const at::Tensor map = heat_of(explanation.map, choice->head);
    const at::Tensor prefix = heat_of(explanation.prefix, choice->head);
    const double own = (map.sum(at::kDouble) + prefix.sum(at::kDouble)).item<double>();
    const double earlier =
        remembers_ ? heat_of(explanation.earlier, choice->head).item<double>() : 0;
    const bool is_additive =
        choice->method == model::explain::Method::hydra && choice->head.kind != Head::Kind::maximum;
    maps.push_back({*choice, *of_class, heat_map(map), explanation.is_signed,
                    class_token_share(config_, map, prefix),
                    remembers_ ? std::optional(memory_share(own, earlier)) : std::nullopt,
                    own + earlier, is_additive, explanation.note, explanation.rules,
                    placement_of(result.plan, result.picture, config_.patch_size)});
  }
  return maps;
}

}  // namespace hydrascope::app
