// 8-bit RGB picture -> normalised input tensor, equal to what Pillow and timm's evaluation
// transform give. What is done is decided in transform_plan.h; this is where the pixels are.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::image {

/// Picture -> resized and cropped, still bytes: uint8 (h, w, 3) of `plan.cropped`'s size,
/// contiguous, on the CPU; with `in_chans` 1 in grey, three times. Only what the crop keeps is
/// resized (`resample`), on the calling thread. Errors as `plan_transform`.
at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture);
/// The same with a plan that is there already: one of several views.
at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture,
                            const TransformPlan& plan);

/// Those bytes -> float32 (in_chans, output.height, output.width), contiguous: (value / 255 - mean) / std,
/// and 0 to the right and below, where padding has made the output larger. Equal to timm's bit
/// for bit.
at::Tensor normalise(const TransformConfig& config, const at::Tensor& pixels, Size output);

/// Tensors (B, in_chans, H, W) that were normalised with the mean and deviation of `from`, as the tensors of
/// `to` would have it; the same tensor where they agree.
at::Tensor renormalise(const at::Tensor& images, const TransformConfig& from,
                       const TransformConfig& to);

/// Both: picture -> the model's input.
at::Tensor apply_transform(const TransformConfig& config, const Picture& picture);

}  // namespace hydrascope::image
