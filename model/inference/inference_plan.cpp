#include "model/inference/inference_plan.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"
#include "model/inference/cpu/streaming_executor.h"
#include "model/inference/folded_network.h"
#include "model/inference/network_packer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

namespace hydrascope::model::inference {

struct InferencePlan::State {
  State(VisionTransformer source, const InferenceOptions& chosen)
      : options(chosen), model(std::move(source)), team(chosen.threads) {}

  InferenceOptions options;
  VisionTransformer model;  ///< of which embeddings and mixers without kernels are used
  kernels::device::ThreadTeam team;
  PackedNetwork network;
  StageTimes* times = nullptr;
  std::unique_ptr<StreamingExecutor> executor;
  std::int64_t batch = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

InferencePlan::InferencePlan(const EngineSource& source, const InferenceOptions& options)
    : SynchronousEngine(source.model->config()),
      state_(std::make_unique<State>(source.model, options)) {
  if (const at::ScalarType type = options.precision.dtype;
      type != at::kFloat && type != at::kBFloat16)
    throw Error(ErrorCode::internal, std::string("the CPU's plan has no ") + c10::toString(type));
  State& s = *state_;
  if (options.kernels == Kernels::fused)
    require_kernels_everywhere(*s.model, [in_windows = common_window(*s.model).has_value()](
                                             std::int64_t, const KernelForm& form) {
      return in_windows || form.serves_rows() ? "" : "beside layers that have none";
    });
  ChannelRanges ranges;
  if (options.precision.int8 && options.calibration.defined()) {
    InferenceOptions in_float32 = options;
    in_float32.precision = {};
    s.network = pack_network(source, in_float32, nullptr, s.team);
    Observers observers;
    observers.ranges = &ranges;
    for (std::int64_t i = 0; i < options.calibration.size(0); ++i)
      run(options.calibration.narrow(0, i, 1), observers);
    s.executor.reset();
  }
  s.network = {};  // before the new one is there: both would count in the peak
  s.network = pack_network(source, options, ranges.empty() ? nullptr : &ranges, s.team);
  s.options.calibration.reset();
  for (const std::int64_t layer : module_layers(s.network))
    move_mixer(s.model->block(layer).attention(), c10::kCPU, options.precision.dtype);
}

InferencePlan::~InferencePlan() = default;
InferencePlan::InferencePlan(InferencePlan&&) noexcept = default;
InferencePlan& InferencePlan::operator=(InferencePlan&&) noexcept = default;

void InferencePlan::prepare(std::int64_t batch, std::int64_t height, std::int64_t width) {
  State& s = *state_;
  if (s.executor && s.height == height && s.width == width && batch <= s.batch) return;
  const std::int64_t patch = s.network.patch_size;
  if (height <= 0 || width <= 0 || height % patch != 0 || width % patch != 0)
    throw Error(ErrorCode::internal,
                "expected H and W multiples of " + std::to_string(patch) + ", found " +
                    std::to_string(height) + "x" + std::to_string(width),
                config().arch);
  s.executor.reset();  // before the new one is there: both would count in the peak
  ExecutionOptions execution;
  execution.fixed_tiles = s.options.deterministic;
  s.executor = StreamingExecutor::make(
      s.network,
      make_geometry(*s.model, s.network, s.options.kernels, height / patch, width / patch), batch,
      s.team, execution);
  s.batch = batch;
  s.height = height;
  s.width = width;
}

at::Tensor InferencePlan::logits(const at::Tensor& images, at::Tensor* trace) {
  at::Tensor result;
  if (trace != nullptr && !state_->options.trace_layers.empty()) {
    *trace = tokens(images, state_->options.trace_layers, &result);
    return result;
  }
  Observers observers;
  observers.times = state_->times;
  return run(images, observers);
}

at::Tensor InferencePlan::tokens(const at::Tensor& images, const std::vector<std::int64_t>& layers,
                                 at::Tensor* logits) {
  check(images);
  at::Tensor traced =
      at::empty({images.size(0), std::ssize(layers), num_tokens(images.size(2), images.size(3)),
                 state_->network.embed_dim},
                at::kFloat);
  const TokenTrace trace{layers, traced.mutable_data_ptr<float>(), /*is_all=*/logits == nullptr};
  Observers observers;
  observers.times = state_->times;
  observers.trace = &trace;
  at::Tensor result = run(images, observers);
  if (logits != nullptr) *logits = std::move(result);
  return traced;
}

void InferencePlan::check(const at::Tensor& images) const {
  const std::int64_t channels = state_->network.in_chans;
  if (images.dim() == 4 && images.size(1) == channels) return;
  throw Error(
      ErrorCode::internal,
      "expected (B, " + std::to_string(channels) + ", H, W), found " + c10::str(images.sizes()),
      config().arch);
}

at::Tensor InferencePlan::run(const at::Tensor& images, const Observers& observers) {
  check(images);
  // Mixers that run as modules are of the plan's precision, whoever calls.
  const AutocastGuard off(c10::kCPU, {});
  const c10::InferenceMode inference;
  State& s = *state_;
  const at::Tensor input = images.to(at::kCPU, at::kFloat).contiguous();
  prepare(input.size(0), input.size(2), input.size(3));
  at::Tensor result = at::empty({input.size(0), s.network.num_classes}, at::kFloat);
  s.executor->run(input.const_data_ptr<float>(), input.size(0), result.mutable_data_ptr<float>(),
                  observers);
  return result;
}

SynchronousEngine::Outputs InferencePlan::compute(const at::Tensor& images) {
  Outputs outputs;
  outputs.logits = logits(images, &outputs.trace);
  return outputs;
}

EngineDescription InferencePlan::describe() const {
  return {module_layers(state_->network).empty() ? "fused" : "fused+modules"};
}

bool InferencePlan::collect_stage_times(StageTimes* times) noexcept {
  state_->times = times;
  return true;
}

}  // namespace hydrascope::model::inference
