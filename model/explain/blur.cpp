#include "model/explain/blur.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/reflection_pad2d.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model::explain {

double blur_sigma(std::int64_t height, std::int64_t width) {
  constexpr double kShareOfEdge = 0.05;
  return kShareOfEdge * static_cast<double>(std::min(height, width));
}

at::Tensor blurred(const at::Tensor& image, double sigma) {
  const at::NoGradGuard no_grad;
  // A reflection reaches no further than the opposite edge.
  const std::int64_t most = std::min(image.size(1), image.size(2)) - 1;
  const std::int64_t radius = std::min<std::int64_t>(std::llround(std::ceil(3 * sigma)), most);
  const at::Tensor x = at::arange(-radius, radius + 1, at::kDouble) / sigma;
  const at::Tensor bell = at::exp(x * x * -0.5);
  const at::Tensor weights = (bell / bell.sum()).to(image.scalar_type());
  const at::Tensor padded =
      at::reflection_pad2d(image.unsqueeze(1), {radius, radius, radius, radius});
  return at::conv2d(at::conv2d(padded, weights.view({1, 1, 1, -1})), weights.view({1, 1, -1, 1}))
      .squeeze(1)
      .contiguous();
}

}  // namespace hydrascope::model::explain
