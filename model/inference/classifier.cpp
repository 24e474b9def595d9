#include "model/inference/classifier.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"
#include "model/inference/cuda_plan.h"
#include "model/inference/inference_plan.h"
#include "model/inference/one_torch_thread.h"
#include "model/network_cost.h"
#include "model/precision_guard.h"
#include "model/torch_errors.h"
#include "model/vision_transformer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unbind.h>

#include <deque>
#include <optional>
#include <sstream>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hydrascope::model {

namespace {

/// Matrices that were packed: the allocator would keep them resident.
void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

constexpr const char* kLessOfABatch = "a smaller --batch-size or --img-size needs less";

/// What a model that finds no memory for its weights can do instead.
std::string less_memory(const ClassifierOptions& options) {
  if (options.precision.dtype == at::kFloat) return "--precision bfloat16 needs half as much";
  if (options.device.is_cuda()) return "--device cpu may have more";
  return options.precision.int8 ? "" : "--precision int8 needs less";
}

/// Whether memory is given back, and LibTorch's threads are used, block by block.
bool has_large_blocks(const VitConfig& config) {
  constexpr std::int64_t kLarge = std::int64_t{16} << 20;
  return inference::bytes_of_a_block(config) >= kLarge;
}

}  // namespace

struct Classifier::State {
  ClassifierOptions options;
  int threads = 1;
  bool fills_in_any_order = false;  ///< as PlanOptions'
  VisionTransformer model{nullptr};
  checkpoint::LoadReport report;
  std::optional<inference::InferencePlan> plan;
  std::unique_ptr<inference::CudaPlan> cuda_plan;
  /// What `collect` and `take_traced_tokens` give for a batch.
  struct Finished {
    at::Tensor logits;
    at::Tensor trace;
  };
  std::deque<Finished> finished;  ///< submitted and computed at once, not collected yet
  at::Tensor trace;               ///< of the batch collected last
  inference::StageTimes* times = nullptr;
};

Classifier::Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
                       const ClassifierOptions& options)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->threads = at::get_num_threads();
  const inference::OneTorchThread of_small_blocks(!has_large_blocks(config));
  state_->model = VisionTransformer(config, Initialisation::for_loading);
  const checkpoint::Loading loading = weights.start_loading(*state_->model, options.head);
  state_->report = loading.report();
  loading.copy_rest();
  state_->fills_in_any_order = true;
  make_ready([&](std::int64_t layer) { loading.copy_block(layer); });
}

Classifier::Classifier(const VitConfig& config, const ClassifierOptions& options)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->threads = at::get_num_threads();
  state_->model = VisionTransformer(config, Initialisation::for_loading);
  make_ready([this](std::int64_t layer) {
    const at::NoGradGuard no_grad;
    state_->model->initialise_block(layer);
  });
}

void Classifier::make_ready(const std::function<void(std::int64_t layer)>& fill_block) {
  const PrecisionGuard guard(options().precision.tf32, options().deterministic);
  with_torch_errors("the model", options().device.str(), less_memory(options()),
                    [&] { compile(fill_block); });
}

void Classifier::compile(const std::function<void(std::int64_t layer)>& fill_block) {
  const ClassifierOptions& options = state_->options;
  state_->model->eval();
  std::string no_plan;
  if (!options.device.is_cuda())
    no_plan = inference::InferencePlan::unsupported(options.precision.dtype);
  if (options.precision.int8 && options.kernels == Kernels::reference)
    throw Error(ErrorCode::invalid_argument, "the reference modules have no 8-bit form",
                "--precision int8 with --kernels reference");
  if (options.keep_tokens != 1 && (options.kernels == Kernels::reference || !no_plan.empty()))
    throw Error(ErrorCode::invalid_argument,
                no_plan.empty() ? "the reference modules keep all tokens" : no_plan,
                "--keep-tokens");
  if (options.kernels == Kernels::fused && !no_plan.empty())
    throw Error(ErrorCode::invalid_argument, no_plan, "--kernels fused",
                "--kernels auto runs the modules there");
  if (options.keep_tokens != 1 && options.device.is_cuda())
    throw Error(ErrorCode::invalid_argument, "tokens are dropped on the CPU only", "--keep-tokens",
                "--device cpu");
  if (options.kernels != Kernels::reference && no_plan.empty() && options.device.is_cuda()) {
    inference::CudaPlanOptions plan;
    plan.device = options.device;
    plan.precision = options.precision;
    plan.kernels = options.kernels;
    plan.deterministic = options.deterministic;
    plan.fill_block = fill_block;
    plan.trace_layers = options.trace_layers;
    state_->cuda_plan = inference::make_cuda_plan(state_->model, plan);
    return;
  }
  if (options.kernels != Kernels::reference && no_plan.empty()) {
    inference::PlanOptions plan;
    plan.dtype = options.precision.dtype;
    plan.int8 = options.precision.int8;
    plan.calibration = options.calibration;
    plan.deterministic = options.deterministic;
    plan.keep_tokens = options.keep_tokens;
    plan.keep_layer = options.keep_layer;
    plan.trace_layers = options.trace_layers;
    plan.kernels = options.kernels;
    plan.threads = state_->threads;
    plan.release_model = true;
    const bool is_large = has_large_blocks(state_->model->config());
    plan.fill_block = [&](std::int64_t layer) {
      if (is_large) give_back_freed_memory();
      fill_block(layer);
    };
    plan.fills_in_any_order = state_->fills_in_any_order;
    state_->plan.emplace(state_->model, plan);
    give_back_freed_memory();
    return;
  }
  for (std::int64_t layer = 0; layer < state_->model->config().depth; ++layer) fill_block(layer);
  state_->model->to(options.device, options.precision.dtype);
  for (torch::Tensor& parameter : state_->model->parameters()) parameter.set_requires_grad(false);
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
  with_torch_errors(shape.str(), options().device.str(), kLessOfABatch, [&] {
    if (state_->cuda_plan) {
      state_->cuda_plan->submit(batch);
      return;
    }
    const at::Tensor images = batch.on_device.defined() ? batch.on_device
                              : batch.size() == 1       ? batch.images.front().unsqueeze(0)
                                                        : at::stack(batch.images);
    if (state_->plan) {
      State::Finished finished;
      finished.logits = state_->plan->logits(images, state_->times, &finished.trace);
      state_->finished.push_back(std::move(finished));
      return;
    }
    ForwardOptions forward{state_->options.kernels};
    const std::vector<std::int64_t>& layers = state_->options.trace_layers;
    std::vector<at::Tensor> block_inputs;
    if (!layers.empty()) forward.block_inputs = &block_inputs;
    const at::Tensor input = images.to(state_->options.device, state_->options.precision.dtype);
    State::Finished finished;
    finished.logits = state_->model->forward(input, forward).to(at::kCPU, at::kFloat).contiguous();
    std::vector<at::Tensor> traced;
    for (const std::int64_t layer : layers)
      traced.push_back(block_inputs[static_cast<std::size_t>(layer)]);
    if (!traced.empty()) finished.trace = at::stack(traced, 1).to(at::kFloat);
    state_->finished.push_back(std::move(finished));
  });
}

at::Tensor Classifier::collect() {
  if (state_->cuda_plan) {
    const at::Tensor logits = with_torch_errors("the batch", options().device.str(), kLessOfABatch,
                                                [&] { return state_->cuda_plan->collect(); });
    state_->trace = state_->cuda_plan->take_traced_tokens();
    return logits;
  }
  if (state_->finished.empty())
    throw Error(ErrorCode::internal, "no batch is under way", "Classifier");
  State::Finished oldest = std::move(state_->finished.front());
  state_->finished.pop_front();
  state_->trace = std::move(oldest.trace);
  return oldest.logits;
}

at::Tensor Classifier::take_traced_tokens() { return std::move(state_->trace); }

int Classifier::under_way() const noexcept {
  if (state_->cuda_plan) return state_->cuda_plan->pending();
  return static_cast<int>(state_->finished.size());
}

int Classifier::most_under_way() const noexcept {
  if (state_->cuda_plan) return inference::CudaPlan::kSlots;
  return 1;
}

std::int64_t Classifier::enough_tokens() const noexcept {
  return options().device.is_cuda() ? 65536 : 1600;
}

bool Classifier::takes_bytes() const noexcept { return state_->cuda_plan != nullptr; }

const VitConfig& Classifier::config() const noexcept { return state_->model->config(); }
const ClassifierOptions& Classifier::options() const noexcept { return state_->options; }
std::string Classifier::kernels() const {
  if (state_->cuda_plan) return state_->cuda_plan->kernels();
  if (state_->plan) return state_->plan->kernels();
  return options().kernels == Kernels::reference ? "reference" : "modules";
}

std::map<std::string, std::string> Classifier::approximations() const {
  std::map<std::string, std::string> list;
  if (options().precision.int8)
    list["calibration"] = options().calibration.defined() ? options().calibration_source : "none";
  if (state_->plan && state_->plan->keep_layer() >= 0) {
    std::ostringstream share;
    share << options().keep_tokens;
    list["keep_tokens"] = share.str();
    list["keep_layer"] = std::to_string(state_->plan->keep_layer());
  }
  return list;
}

double Classifier::gflops_per_image(std::int64_t height, std::int64_t width) const {
  const TokenGrid grid = config().token_grid_of_pixels(height, width);
  if (!state_->plan || state_->plan->keep_layer() < 0)
    return model::gflops_per_image(config(), grid);
  return model::gflops_per_image(
      config(), grid,
      DroppedTokens{state_->plan->keep_layer(),
                    grid.num_prefix + state_->plan->kept_patches(grid.num_image_tokens())});
}

bool Classifier::collect_stage_times(inference::StageTimes* times) noexcept {
  state_->times = times;
  return state_->plan.has_value();
}

const checkpoint::LoadReport& Classifier::load_report() const noexcept { return state_->report; }

std::int64_t Classifier::num_tokens(std::int64_t height, std::int64_t width) const noexcept {
  return config().token_grid_of_pixels(height, width).num_tokens();
}

}  // namespace hydrascope::model
