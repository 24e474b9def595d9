// A training picture becomes a model's input: a random crop, flips, colours, erasing.
#pragma once

#include "model/image/decode.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/training_set.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::training {

/// Throws Error(invalid_argument) for options without sense.
void check_augmentation(const AugmentOptions& options);

/// The picture's bytes as float32 (3, height, width), normalised.
at::Tensor normalise(const AugmentOptions& options, image::Picture& picture);

/// float32 (3, H, W), normalised, contiguous, on the CPU. All random numbers come from `stream`;
/// the calling thread computes. The caller has checked `options`.
at::Tensor augment(const AugmentOptions& options, const image::Picture& picture,
                   RandomStream& stream);

}  // namespace hydrascope::model::training
