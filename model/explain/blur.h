// The blurred picture that insertion starts from. Test: tests/model/explain/faithfulness_test.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model::explain {

/// Sigma of the blur in pixels: a twentieth of the shorter edge, 11.2 at 224.
double blur_sigma(std::int64_t height, std::int64_t width);

/// Gaussian blur of (C, H, W), reflected at the borders, cut at three sigma.
at::Tensor blurred(const at::Tensor& image, double sigma);

}  // namespace hydrascope::model::explain
