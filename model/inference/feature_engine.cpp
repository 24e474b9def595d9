#include "model/inference/feature_engine.h"

#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

namespace hydrascope::model::inference {

WeightTable with_feature_head(const WeightTable& weights, const FeatureAnswer& answer) {
  const at::NoGradGuard no_grad;
  VitConfig config = weights.config();
  const std::int64_t dim = config.embed_dim;
  config.num_classes = dim + (answer.wants_logits ? config.num_classes : 0);
  auto modules = std::make_shared<VisionTransformerImpl>(config, Initialisation::for_loading);
  WeightTable table(*modules);
  for (const auto& [name, read] : weights.tensors()) table.add(name, read);
  // The mean of two heads is what a distilled model answers.
  const double of_first = answer.of_class && config.distilled ? 2 : 1;
  const double of_second = answer.of_class ? 0 : 1;
  for (const auto& [head, scale] :
       {std::pair<std::string, double>("head", of_first), {"head_dist", of_second}}) {
    if (!weights.has(head + ".weight")) continue;
    at::Tensor weight = at::eye(dim, at::kFloat) * scale;
    at::Tensor bias = at::zeros({dim}, at::kFloat);
    if (answer.wants_logits) {
      weight = at::cat({weight, weights.get(head + ".weight").to(at::kFloat)});
      bias = at::cat({bias, weights.get(head + ".bias").to(at::kFloat)});
    }
    table.add(head + ".weight", [weight] { return weight; });
    table.add(head + ".bias", [bias] { return bias; });
  }
  table.own(std::move(modules));
  return table;
}

FeatureEngine::FeatureEngine(std::unique_ptr<Engine> features, VitConfig config,
                             FeatureAnswer answer)
    : Engine(std::move(config), features->options()),
      features_(std::move(features)),
      answer_(std::move(answer)) {}

std::int64_t FeatureEngine::enough_tokens() const noexcept { return features_->enough_tokens(); }

EngineDescription FeatureEngine::describe() const { return features_->describe(); }

bool FeatureEngine::collect_stage_times(StageTimes* times) noexcept {
  return features_->collect_stage_times(times);
}

EngineOutputs FeatureEngine::run(const ImageBatch& batch) {
  EngineOutputs outputs = features_->compute(batch);
  const std::int64_t dim = config().embed_dim;
  const at::Tensor features = outputs.logits.narrow(1, 0, dim);
  at::Tensor own;
  if (answer_.wants_logits) own = outputs.logits.narrow(1, dim, outputs.logits.size(1) - dim);
  outputs.logits = answer_.answer(features, own);
  return outputs;
}

}  // namespace hydrascope::model::inference
