#include "model/inference/classifier.h"

#include "kernels/error.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/patchify/patchify_geometry.h"
#include "model/autocast_guard.h"
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
#include <ATen/core/grad_mode.h>
#include <ATen/ops/unbind.h>

#include <sstream>
#include <string>

namespace hydrascope::model {

using inference::Engine;
using inference::EngineDescription;
using inference::EngineLimits;
using inference::InferenceOptions;

namespace {

constexpr const char* kLessOfABatch = "a smaller `batch_size` or `img_size` needs less";

/// The way out of a model that finds no memory for its weights.
std::string less_memory(const InferenceOptions& options) {
  if (options.precision.dtype == at::kFloat) return "`precision` bfloat16 needs half as much";
  if (options.device.is_cuda()) return "`device` cpu may have more";
  return options.precision.int8 ? "" : "`precision` int8 needs less";
}

/// The reason why a model has no plan on a device; empty where it has one.
std::string without_plan(const c10::Device& device, const VitConfig& config) {
  if (!device.is_cuda()) return {};
  if (config.swiglu_mlp || config.scale_mlp) return "the GPU's kernels have plain MLPs alone";
  if (config.pos_embed == PosEmbed::layers) return "the GPU's plan has one table of positions";
  if (!kernels::patchify::cuda::serves(config.patch_size))
    return "the GPU's kernels cut patches of 8, 14, 16 and 32 pixels";
  if (!kernels::layer_norm::cuda::serves<kernels::BFloat16>(config.embed_dim) ||
      !kernels::layer_norm::cuda::serves<float>(config.embed_dim))
    return "the GPU's kernels have no rows of " + std::to_string(config.embed_dim);
  return {};
}

/// Whether a plan runs, not the modules. Error(invalid_argument) where the options want what neither
/// gives.
bool plan_serves(const InferenceOptions& options, const VitConfig& config) {
  const std::string no_plan = without_plan(options.device, config);
  if (options.precision.int8 && options.kernels == Kernels::reference)
    throw Error(ErrorCode::invalid_argument, "the reference modules have no 8-bit form",
                "`precision` int8 with `kernels` reference");
  if (options.kernels == Kernels::fused && !no_plan.empty())
    throw Error(ErrorCode::invalid_argument, no_plan, "`kernels` fused",
                "`kernels` auto runs the modules there");
  return options.kernels != Kernels::reference && no_plan.empty();
}

}  // namespace

struct Classifier::State {
  explicit State(const InferenceOptions& chosen) : options(chosen) {
    options.threads = at::get_num_threads();
  }

  InferenceOptions options;
  checkpoint::LoadReport report;
  std::unique_ptr<Engine> engine;
};

Classifier::Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
                       const InferenceOptions& options, const checkpoint::HeadOptions& head)
    : Engine(config), state_(std::make_unique<State>(options)) {
  const inference::OneTorchThread of_small_blocks(!inference::has_large_blocks(config));
  VisionTransformer modules(config, Initialisation::for_loading);
  const checkpoint::Loading loading = weights.start_loading(*modules, head);
  state_->report = loading.report();
  make_engine({modules, loading.source()});
}

Classifier::Classifier(const VitConfig& config, const InferenceOptions& options)
    : Engine(config), state_(std::make_unique<State>(options)) {
  VisionTransformer modules(config, Initialisation::for_loading);
  make_engine({modules, random_block_linears(*modules)});
}

void Classifier::make_engine(const inference::EngineSource& source) {
  const PrecisionGuard guard(options().precision.tf32, options().deterministic);
  const bool has_plan = plan_serves(options(), config());
  with_torch_errors("the model", options().device.str(), less_memory(options()), [&] {
    if (!has_plan)
      state_->engine = std::make_unique<inference::ModulesEngine>(source, options());
    else if (options().device.is_cuda())
      state_->engine = inference::make_cuda_plan(source, options());
    else
      state_->engine = std::make_unique<inference::InferencePlan>(source, options());
  });
}

Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;
Classifier::~Classifier() = default;

at::Tensor Classifier::logits(const at::Tensor& images) {
  inference::ImageBatch batch;
  if (images.is_cpu()) {
    batch.images = images.unbind();
  } else {
    batch.on_device = images.contiguous();
  }
  batch.height = images.size(2);
  batch.width = images.size(3);
  submit(batch);
  return collect();
}

void Classifier::submit(const inference::ImageBatch& batch) {
  const c10::InferenceMode inference;
  // Its precision is its own, also for a model under training that asks it (a teacher).
  const AutocastGuard off(options().device.type(), {});
  const PrecisionGuard guard(options().precision.tf32, options().deterministic);
  std::ostringstream shape;
  shape << "a batch of " << batch.size() << " images of " << batch.height << "x" << batch.width;
  with_torch_errors(shape.str(), options().device.str(), kLessOfABatch,
                    [&] { state_->engine->submit(batch); });
}

at::Tensor Classifier::collect() {
  return with_torch_errors("the batch", options().device.str(), kLessOfABatch,
                           [&] { return state_->engine->collect(); });
}

at::Tensor Classifier::take_traced_tokens() { return state_->engine->take_traced_tokens(); }
int Classifier::under_way() const noexcept { return state_->engine->under_way(); }
EngineLimits Classifier::limits() const noexcept { return state_->engine->limits(); }
EngineDescription Classifier::describe() const { return state_->engine->describe(); }
bool Classifier::collect_stage_times(inference::StageTimes* times) noexcept {
  return state_->engine->collect_stage_times(times);
}

const InferenceOptions& Classifier::options() const noexcept { return state_->options; }
const checkpoint::LoadReport& Classifier::load_report() const noexcept { return state_->report; }

std::map<std::string, std::string> Classifier::approximations() const {
  std::map<std::string, std::string> list;
  if (options().precision.int8)
    list["calibration"] = options().calibration.defined() ? options().calibration_source : "none";
  return list;
}

double Classifier::gflops_per_image(std::int64_t height, std::int64_t width) const {
  return model::gflops_per_image(config(), config().token_grid_of_pixels(height, width));
}

}  // namespace hydrascope::model
