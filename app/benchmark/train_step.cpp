#include "app/benchmark/train_step.h"

#include "kernels/error.h"
#include "model/training/autocast.h"
#include "model/training/losses.h"
#include "model/training/optimizer.h"
#include "model/training/parameter_groups.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::app {

Timings measure_train_step(const model::VitConfig& config, const image::Size& size,
                           std::int64_t batch, const c10::Device& device,
                           const model::Precision& precision, const MeasureOptions& options) {
  namespace training = model::training;
  if (precision.int8 || precision.tf32 || precision.dtype == at::kHalf) {
    throw Error(ErrorCode::invalid_argument, "training computes in float32 or bfloat16",
                "--precision " + std::string(precision.name()));
  }
  const auto autocast =
      precision.dtype == at::kBFloat16 ? training::Autocast::bfloat16 : training::Autocast::off;
  model::VisionTransformer model(config);
  model->to(device);
  model->train();
  training::Optimizer optimizer(training::parameter_groups(*model, {}), {});
  const at::Tensor images = at::randn({batch, 3, size.height, size.width}).to(device);
  const at::Tensor targets = at::randint(config.num_classes, {batch}, at::kLong).to(device);
  constexpr double kLearningRate = 1e-4;
  constexpr double kSmoothing = 0.1;
  return measure(
      [&] {
        optimizer.zero_grad();
        at::Tensor loss;
        {
          const training::AutocastScope scope(autocast, device.type());
          loss = training::cross_entropy(model->forward(images), targets, kSmoothing);
        }
        loss.backward();
        optimizer.step(kLearningRate);
        if (!std::isfinite(loss.item<float>()))
          throw Error(ErrorCode::failed, "the loss is not finite", config.arch);
      },
      options, device);
}

}  // namespace hydrascope::app
