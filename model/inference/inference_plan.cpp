#include "model/inference/inference_plan.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"
#include "model/inference/cpu/streaming_executor.h"
#include "model/inference/folded_network.h"
#include "model/inference/network_packer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
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
  std::optional<std::int64_t> reduced_layer;
  StageTimes* times = nullptr;
  std::unique_ptr<StreamingExecutor> executor;
  std::int64_t batch = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

namespace {

/// Where tokens are dropped, or Error(invalid_argument).
std::int64_t reduction_layer(const PackedNetwork& network, const InferenceOptions& options,
                             const VitConfig& config) {
  const auto refuse = [](const std::string& why, const std::string& subject) {
    throw Error(ErrorCode::invalid_argument, why, subject);
  };
  if (!(options.keep_tokens > 0 && options.keep_tokens <= 1))
    refuse("expected a fraction above 0, at most 1", "`keep_tokens`");
  if (!config.class_token || config.global_pool == Pooling::avg)
    refuse("tokens are ranked by what they give to the class token, which this model does not use",
           "`keep_tokens`");
  if (config.depth < 2)
    refuse("tokens are dropped between two blocks, the model has one", "`keep_tokens`");
  const std::vector<std::int64_t> whole = layers_of_all_tokens(network);
  const std::int64_t first = whole.empty() ? 0 : whole.back() + 1;
  const std::int64_t last = config.depth - 2;
  const std::string layers = std::to_string(first) + " to " + std::to_string(last);
  if (first > last) {
    const std::string mechanism = config.attention_of(whole.back()).mechanism;
    const PackedBlock& block = network.blocks[static_cast<std::size_t>(whole.back())];
    const std::string rule = config.rel_pos_of(whole.back()).rule;
    const std::string what = block.has_table   ? "has a table of positions"
                             : rule != kNoRule ? "has the position rule '" + rule + "'"
                                               : "runs '" + mechanism + "'";
    refuse("layer " + std::to_string(whole.back()) + " " + what +
               ", for which there are no kernels that take part of the tokens",
           "`keep_tokens`");
  }
  const std::int64_t layer = options.keep_layer.value_or(std::clamp(config.depth / 4, first, last));
  if (layer < first || layer > last)
    refuse("expected a layer from " + layers + ", found " + std::to_string(layer), "`keep_layer`");
  return layer;
}

}  // namespace

std::int64_t kept_patches(const InferenceOptions& options, std::int64_t patches) {
  return static_cast<std::int64_t>(std::ceil(options.keep_tokens * static_cast<double>(patches)));
}

std::string InferencePlan::unsupported(at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kBFloat16)
    return "the CPU's kernels compute in float32, bfloat16 or int8, not in " +
           std::string(dtype == at::kHalf ? "float16" : c10::toString(dtype));
  return {};
}

InferencePlan::InferencePlan(const EngineSource& source, const InferenceOptions& options)
    : SynchronousEngine(source.model->config()),
      state_(std::make_unique<State>(source.model, options)) {
  if (const std::string why = unsupported(options.precision.dtype); !why.empty())
    throw Error(ErrorCode::invalid_argument, why);
  State& s = *state_;
  if (options.kernels == Kernels::fused)
    require_kernels_everywhere(
        *s.model, common_window(*s.model) ? SparseKernels::windows : SparseKernels::groups,
        /*rotations=*/true);
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
  if (options.keep_tokens != 1 && !options.trace_layers.empty())
    throw Error(ErrorCode::invalid_argument, "dropped tokens cannot be traced", "`keep_tokens`");
  if (options.keep_tokens != 1) s.reduced_layer = reduction_layer(s.network, options, config());
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
  const std::int64_t patches = config().token_grid_of_pixels(height, width).num_image_tokens();
  ExecutionOptions execution;
  execution.fixed_tiles = s.options.deterministic;
  if (s.reduced_layer && kept_patches(s.options, patches) < patches)
    execution.reduction = TokenReduction{*s.reduced_layer, kept_patches(s.options, patches)};
  s.executor = StreamingExecutor::make(
      s.network, make_geometry(*s.model, s.network, height / patch, width / patch), batch, s.team,
      execution);
  s.batch = batch;
  s.height = height;
  s.width = width;
}

at::Tensor InferencePlan::logits(const at::Tensor& images, at::Tensor* trace) {
  // Mixers that run as modules are of the plan's precision, whoever calls.
  const AutocastGuard off(c10::kCPU, {});
  Observers observers;
  observers.times = state_->times;
  TokenTrace tokens;
  const PackedNetwork& network = state_->network;
  if (trace != nullptr && !state_->options.trace_layers.empty() && images.dim() == 4) {
    tokens.layers = state_->options.trace_layers;
    *trace = at::empty({images.size(0), std::ssize(tokens.layers),
                        num_tokens(images.size(2), images.size(3)), network.embed_dim},
                       at::kFloat);
    tokens.tokens = trace->mutable_data_ptr<float>();
    observers.trace = &tokens;
  }
  return run(images, observers);
}

at::Tensor InferencePlan::run(const at::Tensor& images, const Observers& observers) {
  const c10::InferenceMode inference;
  State& s = *state_;
  if (images.dim() != 4 || images.size(1) != s.network.in_chans)
    throw Error(ErrorCode::internal,
                "expected (B, " + std::to_string(s.network.in_chans) + ", H, W), found " +
                    c10::str(images.sizes()),
                config().arch);
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
  return {module_layers(state_->network).empty() ? "fused" : "fused+modules",
          state_->reduced_layer.value_or(-1)};
}

bool InferencePlan::collect_stage_times(StageTimes* times) noexcept {
  state_->times = times;
  return true;
}

}  // namespace hydrascope::model::inference
