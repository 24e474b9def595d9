#include "app/train/validation.h"

#include "app/evaluate/evaluated_set.h"
#include "app/run/signal_stop.h"
#include "app/scores/scores.h"
#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace hydrascope::app {
namespace {

/// The modules under training as an engine of the pipeline.
class ModulesUnderTraining final : public model::inference::SynchronousEngine {
 public:
  ModulesUnderTraining(model::VisionTransformerImpl& model, c10::Device device,
                       model::training::Autocast autocast)
      : SynchronousEngine(model.config()), model_(model), device_(device), autocast_(autocast) {
    model_.eval();
  }
  ModulesUnderTraining(const ModulesUnderTraining&) = delete;
  ModulesUnderTraining& operator=(const ModulesUnderTraining&) = delete;
  ~ModulesUnderTraining() override { model_.train(); }

  [[nodiscard]] model::inference::EngineLimits limits() const noexcept override {
    constexpr std::int64_t kBusyGpu = 32768;
    constexpr std::int64_t kBusyCpu = 4096;
    return {1, /*takes_bytes=*/false, device_.is_cuda() ? kBusyGpu : kBusyCpu};
  }

 protected:
  Outputs compute(const at::Tensor& images) override {
    const at::NoGradGuard no_grad;
    const model::training::AutocastScope scope(autocast_, device_.type());
    return {model_.forward(images.to(device_)).to(at::kFloat).cpu(), {}};
  }

 private:
  model::VisionTransformerImpl& model_;
  c10::Device device_;
  model::training::Autocast autocast_;
};

}  // namespace

ValidationScore validate_model(model::VisionTransformerImpl& model, c10::Device device,
                               model::training::Autocast autocast,
                               const std::vector<LabelledPicture>& pictures,
                               const PipelineOptions& pipeline,
                               const model::training::FailureReport& on_failure,
                               model::training::ProcessGroup& group) {
  ModulesUnderTraining modules(model, device, autocast);
  const auto stride = static_cast<std::size_t>(group.world_size());
  std::size_t next = static_cast<std::size_t>(group.rank());
  const auto next_input = [&]() -> std::optional<Input> {
    if (next >= pictures.size() || stop_requested()) return std::nullopt;
    const LabelledPicture& picture = pictures[next];
    next += stride;
    return input_of(picture);
  };
  std::size_t seen = static_cast<std::size_t>(group.rank());
  enum Count : std::uint8_t { kImages, kFailed, kTop1, kTop5, kLoss, kInterrupted, kCounts };
  std::array<double, kCounts> sum{};
  const auto add = [&](PipelineResult& result) {
    const std::size_t index = std::exchange(seen, seen + stride);
    const std::int64_t target = pictures[index].target;
    if (result.error) {
      on_failure(pictures[index].file.string(), result.message);
      sum[kFailed] += 1;
      return true;
    }
    const at::Tensor logits = result.logits.to(at::kFloat).contiguous();
    const ScoredPicture scored = score_picture(
        {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, target, index);
    sum[kImages] += 1;
    sum[kTop1] += scored.is_right() ? 1 : 0;
    sum[kTop5] += scored.rank <= kTopClasses ? 1 : 0;
    sum[kLoss] += scored.log_loss;
    return true;
  };
  run_pipeline(next_input, modules, pipeline, add);
  if (stop_requested()) sum[kInterrupted] = 1;
  const at::Tensor sums =
      at::from_blob(sum.data(), {static_cast<std::int64_t>(sum.size())}, at::kDouble);
  const at::Tensor all = sums.to(device, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  group.sum({all});
  sums.copy_(all);
  const bool is_whole = sum[kInterrupted] == 0;
  if (is_whole && sum[kImages] == 0)
    throw Error(ErrorCode::empty, "none of the labelled pictures can be read", "validation");
  const double images = std::max(1.0, sum[kImages]);
  return {static_cast<std::int64_t>(sum[kImages]),
          static_cast<std::int64_t>(sum[kFailed]),
          100 * sum[kTop1] / images,
          100 * sum[kTop5] / images,
          sum[kLoss] / images,
          !is_whole};
}

}  // namespace hydrascope::app
