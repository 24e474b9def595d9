#include "model/inference/inference_plan.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"
#include "model/inference/network_packer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>
#include <variant>

namespace hydrascope::model::inference {
namespace {

/// Makes room for what is asked of the exits.
ExitRecord record_of(Exits exits, const VitConfig& config, std::int64_t images,
                     ExitOutputs& outputs) {
  ExitRecord record;
  if (config.exits.empty() || exits == Exits::off) return record;
  record.leave = exits == Exits::leave;
  record.rule = config.exit_rule;
  record.threshold = config.exit_threshold;
  const auto count = std::ssize(config.exits);
  if (record.leave) {
    outputs.layers = at::empty({images}, at::kLong);
    record.layers = outputs.layers.mutable_data_ptr<std::int64_t>();
  } else {
    outputs.scores = at::empty({images, count}, at::kFloat);
    outputs.classes = at::empty({images, count}, at::kLong);
    record.scores = outputs.scores.mutable_data_ptr<float>();
    record.classes = outputs.classes.mutable_data_ptr<std::int64_t>();
  }
  return record;
}

}  // namespace

InferencePlan::InferencePlan(const WeightTable& weights, const InferenceOptions& options)
    : Engine(weights.config(), options),
      parts_(read_parts(weights, options.memory)),
      team_(options.threads) {
  if (const std::string why = why_modules_alone(config()); !why.empty())
    throw Error(ErrorCode::internal, why, config().arch);
  if (const at::ScalarType type = options.precision.dtype;
      type != at::kFloat && type != at::kBFloat16)
    throw Error(ErrorCode::internal, std::string("the CPU's plan has no ") + c10::toString(type));
  if (options.kernels == Kernels::fused)
    require_kernels_everywhere(parts_, [in_windows = common_window(parts_).has_value()](
                                           std::int64_t, const KernelForm& form) {
      return in_windows || form.serves_rows() ? "" : "beside layers that have none";
    });
  ChannelRanges ranges;
  if (options.precision.int8 && options.calibration.defined()) {
    InferenceOptions in_float32 = options;
    in_float32.precision = {};
    network_ = pack_network(weights, parts_, in_float32, nullptr, team_);
    Observers observers;
    observers.ranges = &ranges;
    for (std::int64_t i = 0; i < options.calibration.size(0); ++i)
      execute(options.calibration.narrow(0, i, 1), observers);
    executor_ = {};
  }
  network_ = {};  // before the new one is there: both would count in the peak
  network_ = pack_network(weights, parts_, options, ranges.empty() ? nullptr : &ranges, team_);
  for (const std::int64_t layer : module_layers(network_))
    move_mixer(*parts_.attention[static_cast<std::size_t>(layer)], c10::kCPU,
               network_.storage == kernels::Storage::float32 ? at::kFloat : at::kBFloat16);
}

void InferencePlan::prepare(std::int64_t batch, std::int64_t height, std::int64_t width,
                            std::optional<bool> splits) {
  const std::int64_t patch = network_.patch_size;
  if (height <= 0 || width <= 0 || height % patch != 0 || width % patch != 0)
    throw Error(ErrorCode::internal,
                "expected H and W multiples of " + std::to_string(patch) + ", found " +
                    std::to_string(height) + "x" + std::to_string(width),
                config().arch);
  const auto serves = [&](const auto& executor) {
    return executor != nullptr && executor->serves(batch, height / patch, width / patch);
  };
  if (std::visit(serves, executor_)) return;
  executor_ = {};  // before the new one is there: both would count in the peak
  ExecutionOptions execution;
  execution.fixed_tiles = options().deterministic;
  execution.splits = splits;
  executor_ = make_executor(
      network_, make_geometry(parts_, network_, options().kernels, height / patch, width / patch),
      batch, team_, execution);
}

EngineOutputs InferencePlan::run(const ImageBatch& batch) {
  const at::Tensor images = batch.stacked();
  Observers observers;
  if (batch.block_done) observers.block_done = &batch.block_done;
  observers.goes_on = batch.goes_on;
  EngineOutputs outputs;
  if (options().trace_layers.empty()) {
    const ExitRecord exits = record_of(options().exits, config(), images.size(0), outputs.exits);
    if (!network_.exits.layers.empty()) observers.exits = &exits;
    outputs.logits = execute(images, observers);
    return outputs;
  }
  outputs.tokens = tokens(images, options().trace_layers, &outputs.logits, observers);
  return outputs;
}

at::Tensor InferencePlan::tokens(const at::Tensor& images, const std::vector<std::int64_t>& layers,
                                 at::Tensor* logits, Observers observers) {
  check(images);
  at::Tensor traced = at::empty({images.size(0), std::ssize(layers),
                                 num_tokens(images.size(2), images.size(3)), network_.embed_dim},
                                at::kFloat);
  const TokenTrace trace{layers, traced.mutable_data_ptr<float>(), /*is_all=*/logits == nullptr};
  observers.trace = &trace;
  at::Tensor result = execute(images, observers);
  if (logits != nullptr) *logits = std::move(result);
  return traced;
}

void InferencePlan::check(const at::Tensor& images) const {
  const std::int64_t channels = network_.in_chans;
  if (images.dim() == 4 && images.size(1) == channels) return;
  throw Error(
      ErrorCode::internal,
      "expected (B, " + std::to_string(channels) + ", H, W), found " + c10::str(images.sizes()),
      config().arch);
}

at::Tensor InferencePlan::execute(const at::Tensor& images, Observers observers) {
  check(images);
  // Mixers that run as modules have the plan's precision, also under a caller's autocast.
  const AutocastGuard off(c10::kCPU, {});
  const c10::InferenceMode inference;
  const at::Tensor input = images.to(at::kCPU, at::kFloat).contiguous();
  for (const auto& attention : parts_.attention)
    if (!observers.goes_on) attention->forget();
  prepare(input.size(0), input.size(2), input.size(3));
  at::Tensor result = at::empty({input.size(0), network_.num_classes}, at::kFloat);
  observers.times = times_;
  const auto run_on = [&](const auto& executor) {
    executor->run(input.const_data_ptr<float>(), input.size(0), result.mutable_data_ptr<float>(),
                  observers);
  };
  std::visit(run_on, executor_);
  return result;
}

EngineDescription InferencePlan::describe() const {
  return {module_layers(network_).empty() ? "fused" : "fused+modules"};
}

bool InferencePlan::collect_stage_times(StageTimes* times) noexcept {
  times_ = times;
  return true;
}

}  // namespace hydrascope::model::inference
