#include "model/inference/classifier.h"

#include "kernels/error.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "model/config/network_cost.h"
#include "model/inference/gpu/cuda_plan.h"
#include "model/inference/inference_plan.h"
#include "model/inference/modules_engine.h"
#include "model/inference/network_packer.h"
#include "model/inference/one_torch_thread.h"
#include "model/precision_guard.h"
#include "model/torch_errors.h"
#include "model/vision_transformer.h"

#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <utility>

namespace hydrascope::model {

using inference::Engine;
using inference::InferenceOptions;

namespace {

/// The way out of a model that finds no memory for its weights.
std::string less_memory(const InferenceOptions& options) {
  if (options.precision.dtype == at::kFloat) return "`precision` bfloat16 needs half as much";
  if (options.device.is_cuda()) return "`device` cpu may have more";
  return options.precision.int8 ? "" : "`precision` int8 needs less";
}

/// The reason why a model has no plan on a device; empty if it has one.
std::string without_plan(const c10::Device& device, const VitConfig& config) {
  if (std::string why = why_modules_alone(config); !why.empty()) return why;
  if (!device.is_cuda()) return {};
  if (config.swiglu_mlp || config.scale_mlp || config.act != Activation::gelu)
    return "the GPU's kernels have plain MLPs with GELU alone";
  if (config.patch_norm || config.norm_pre || config.scale_attn || config.post_norm ||
      !config.final_norm)
    return "the GPU's plan has norms in front of attention, MLP and classifier alone";
  if (config.rms_norm) return "the GPU's kernels have LayerNorm and no RMSNorm";
  if (config.global_pool == Pooling::map) return "the GPU's plan has no attention pooling";
  if (config.pos_embed == PosEmbed::layers) return "the GPU's plan has one table of positions";
  if (!kernels::patchify::cuda::serves(config.patch_size))
    return "the GPU's kernels cut patches of 8, 14, 16 and 32 pixels";
  if (!kernels::layer_norm::cuda::serves<kernels::BFloat16>(config.embed_dim) ||
      !kernels::layer_norm::cuda::serves<float>(config.embed_dim))
    return "the GPU's kernels have no rows of " + std::to_string(config.embed_dim);
  return {};
}

/// Whether a plan runs, not the modules. Error(invalid_argument) if neither serves the options.
bool plan_serves(const InferenceOptions& options, const VitConfig& config) {
  std::string no_plan = without_plan(options.device, config);
  if (options.device.is_cuda() && options.exits != inference::Exits::off && no_plan.empty())
    no_plan = "the GPU's plan has no exits";
  if (options.device.is_cuda() && !options.memory.empty() && no_plan.empty())
    no_plan = "the GPU's plan has no memory over frames";
  if (options.precision.int8 && options.kernels == Kernels::reference)
    throw Error(ErrorCode::invalid_argument, "the reference modules have no 8-bit form",
                "`precision` int8 with `kernels`=reference");
  if (options.kernels == Kernels::fused && !no_plan.empty())
    throw Error(ErrorCode::invalid_argument, no_plan, "`kernels` fused",
                "`kernels`=auto runs the modules there");
  if (options.precision.int8 && !no_plan.empty())
    throw Error(ErrorCode::invalid_argument, no_plan + ", and modules have no 8-bit form",
                "`precision` int8");
  return options.kernels != Kernels::reference && no_plan.empty();
}

/// The options with as many threads as LibTorch has; asked for before weights are loaded, which takes
/// a single thread for small blocks.
InferenceOptions on_all_threads(InferenceOptions options) {
  options.threads = at::get_num_threads();
  return options;
}

std::unique_ptr<Engine> make_engine(const WeightTable& weights, const InferenceOptions& options) {
  const PrecisionGuard guard(options.precision.tf32, options.deterministic);
  const bool has_plan = plan_serves(options, weights.config());
  return with_torch_errors("the model", options.device.str(), less_memory(options),
                           [&]() -> std::unique_ptr<Engine> {
                             if (!has_plan)
                               return std::make_unique<inference::ModulesEngine>(weights, options);
                             if (options.device.is_cuda())
                               return inference::make_cuda_plan(weights, options);
                             return std::make_unique<inference::InferencePlan>(weights, options);
                           });
}

}  // namespace

Classifier::Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
                       const InferenceOptions& options, const checkpoint::HeadOptions& head,
                       const FeatureAnswer* answer)
    : config_(config) {
  const InferenceOptions of_engine = on_all_threads(options);
  const inference::OneTorchThread of_small_blocks(!inference::has_large_blocks(config));
  auto modules = std::make_shared<VisionTransformerImpl>(answer ? answer->model : config,
                                                         Initialisation::for_loading);
  checkpoint::Loading loading = weights.start_loading(*modules, head);
  report_ = loading.report();
  if (answer) {
    engine_ = std::make_unique<inference::FeatureEngine>(
        make_engine(inference::with_feature_head(loading.weights(), answer->features), of_engine),
        config, *answer);
    return;
  }
  loading.weights().own(std::move(modules));
  engine_ = make_engine(loading.weights(), of_engine);
}

Classifier::Classifier(const VitConfig& config, const InferenceOptions& options)
    : config_(config),
      engine_(make_engine(random_weights(std::make_shared<VisionTransformerImpl>(
                              config, Initialisation::for_loading)),
                          on_all_threads(options))) {}

std::map<std::string, std::string> Classifier::approximations() const {
  std::map<std::string, std::string> list;
  if (options().precision.int8)
    list["calibration"] = options().calibration.defined() ? options().calibration_source : "none";
  if (!options().memory.empty()) list["memory"] = to_text(options().memory);
  return list;
}

double Classifier::gflops_per_image(std::int64_t height, std::int64_t width) const {
  return model::gflops_per_image(config_, config_.token_grid_of_pixels(height, width));
}

}  // namespace hydrascope::model
