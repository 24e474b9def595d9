#include "model/inference/feature_engine.h"

#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

/// The pooling that gives these features.
Pooling pooling_of(const VitConfig& config, Features features) {
  if (features == Features::class_token) return Pooling::token;
  return features == Features::patch_mean ? Pooling::avg : config.global_pool;
}

}  // namespace

bool are_pooled(const VitConfig& config, Features features) {
  if (features == Features::projected) return false;
  return features == Features::pooled ||
         (!config.distilled && config.global_pool == pooling_of(config, features));
}

std::string why_no_features(const VitConfig& config, Features features) {
  if (features == Features::pooled) return {};
  if (features == Features::projected)
    return config.num_classes > 0 ? "" : "has no projection and no classifier";
  if (features == Features::class_token && !config.class_token) return "has no class token";
  if (config.fc_norm) return "has no norm before pooling";
  if (features == Features::patch_mean && config.distilled)
    return "is distilled: it has two classifiers of two tokens";
  return {};
}

namespace inference {

WeightTable with_feature_head(const WeightTable& weights, Features features) {
  const at::NoGradGuard no_grad;
  VitConfig config = weights.config();
  const std::int64_t dim = config.embed_dim;
  const bool keeps_logits =
      config.num_classes > 0 && (features == Features::projected || are_pooled(config, features));
  const bool doubles_first = features == Features::class_token && config.distilled;
  const bool drops_pool =
      config.global_pool == Pooling::map && pooling_of(config, features) != Pooling::map;
  config.global_pool = pooling_of(config, features);
  if (drops_pool) {
    config.pool_heads = 0;
    config.pool_prefix = false;
  }
  config.exits.clear();  // they answer with the classifier before
  config.coarse_exits = false;
  config.num_classes = (keeps_logits ? config.num_classes : 0) + dim;
  auto modules = std::make_shared<VisionTransformerImpl>(config, Initialisation::for_loading);
  WeightTable table(*modules);
  for (const auto& [name, read] : weights.tensors())
    if (!name.starts_with("exits.") && !(drops_pool && name.starts_with("attn_pool.")))
      table.add(name, read);
  std::vector<std::pair<std::string, double>> heads{{"head", doubles_first ? 2 : 1}};
  if (config.distilled) heads.emplace_back("head_dist", doubles_first ? 0 : 1);
  for (const auto& [head, scale] : heads) {
    at::Tensor weight = at::eye(dim, at::kFloat) * scale;
    at::Tensor bias = at::zeros({dim}, at::kFloat);
    if (keeps_logits) {
      weight = at::cat({weights.get(head + ".weight").to(at::kCPU, at::kFloat), weight});
      bias = at::cat({weights.get(head + ".bias").to(at::kCPU, at::kFloat), bias});
    }
    table.add(head + ".weight", [weight] { return weight; });
    table.add(head + ".bias", [bias] { return bias; });
  }
  table.own(std::move(modules));
  return table;
}

FeatureEngine::FeatureEngine(std::unique_ptr<Engine> engine, VitConfig config, FeatureAnswer answer)
    : Engine(std::move(config), engine->options()),
      engine_(std::move(engine)),
      answer_(std::move(answer)) {}

std::int64_t FeatureEngine::enough_tokens() const noexcept { return engine_->enough_tokens(); }

Overlap* FeatureEngine::overlap() noexcept {
  return engine_->overlap() != nullptr ? this : nullptr;
}

EngineDescription FeatureEngine::describe() const { return engine_->describe(); }

bool FeatureEngine::collect_stage_times(StageTimes* times) noexcept {
  return engine_->collect_stage_times(times);
}

EngineOutputs FeatureEngine::run(const ImageBatch& batch) {
  return answered(engine_->compute(batch));
}

int FeatureEngine::most_under_way() const noexcept { return engine_->overlap()->most_under_way(); }

PendingBatch::Wait FeatureEngine::begin(const ImageBatch& batch) {
  return [this, wait = engine_->overlap()->begin(batch)] { return answered(wait()); };
}

EngineOutputs FeatureEngine::answered(EngineOutputs outputs) const {
  const std::int64_t dim = config().embed_dim;
  const std::int64_t own = outputs.logits.size(1) - dim;
  const at::Tensor logits = outputs.logits.narrow(1, 0, own).contiguous();
  outputs.features = answer_.features == Features::projected
                         ? logits
                         : outputs.logits.narrow(1, own, dim).contiguous();
  outputs.logits = answer_.answer ? answer_.answer(outputs.features, logits) : logits;
  return outputs;
}

}  // namespace inference
}  // namespace hydrascope::model
