// Substitutes for a patch that is taken away. Test: tests/model/explain/faithfulness_test.cpp.
#pragma once

#include "model/registry/measures.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>

namespace hydrascope::model::explain {

/// The substrates of one picture, each made at its first use.
class PictureSubstrates {
 public:
  /// image: float (3 or 1, H, W), normalised as (value - mean) / std. Must outlive this.
  PictureSubstrates(const at::Tensor& image, const std::array<double, 3>& mean,
                    const std::array<double, 3>& std)
      : image_(image), mean_(mean), std_(std) {}

  /// As large as the image, its every pixel replaced: by the transform's mean colour (0), by black,
  /// or by the pixel of the blurred image. The reference stays valid.
  const at::Tensor& get(Substrate substrate);

 private:
  [[nodiscard]] at::Tensor make(Substrate substrate) const;

  const at::Tensor& image_;
  std::array<double, 3> mean_;
  std::array<double, 3> std_;
  std::map<Substrate, at::Tensor> made_;
};

/// Sigma of the blur in pixels: a twentieth of the shorter edge, 11.2 at 224.
double blur_sigma(std::int64_t height, std::int64_t width);

/// Gaussian blur of (C, H, W), reflected at the borders, cut at three sigma.
at::Tensor blurred(const at::Tensor& image, double sigma);

}  // namespace hydrascope::model::explain
