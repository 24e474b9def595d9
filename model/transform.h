// 8-bit RGB picture -> normalised input tensor, equal to the results of Pillow and of timm's
// evaluation transform. transform_plan.h decides the steps; these functions apply them to pixels.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::image {

/// Picture -> resized and cropped bytes: uint8 (h, w, 3) of `plan.cropped`'s size, contiguous, on
/// the CPU; with `in_chans` 1 the grey channel three times. Only the crop is resized (`resample`),
/// on the calling thread. Throws what `plan_transform` throws.
at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture);
/// The same with a given plan.
at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture,
                            const TransformPlan& plan);

/// The bytes of `transform_pixels` -> float32 (in_chans, output.height, output.width), contiguous:
/// (value / 255 - mean) / std, and 0 in the padding to the right and below. Equal to timm's bit for
/// bit.
at::Tensor normalise(const TransformConfig& config, const at::Tensor& pixels, Size output);

/// Tensors (B, in_chans, H, W), normalised with the mean and deviation of `from`, as `to`
/// normalises them; the same tensor if the two agree.
at::Tensor renormalise(const at::Tensor& images, const TransformConfig& from,
                       const TransformConfig& to);

/// `transform_pixels`, then `normalise`: picture -> the model's input.
at::Tensor apply_transform(const TransformConfig& config, const Picture& picture);

}  // namespace hydrascope::image
