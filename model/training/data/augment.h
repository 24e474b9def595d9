// A training picture becomes a model's input: a random crop, flips, colours, erasing.
#pragma once

#include "model/image/decode.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/training_set.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::training {

/// Throws Error(invalid_argument) for options without sense.
void check_augmentation(const AugmentOptions& options);

/// The picture's bytes as float32 (3, its size), normalised.
at::Tensor normalise(const AugmentOptions& options, image::Picture& picture);

/// float32 (3, H, W), normalised, contiguous, on the CPU. What is drawn comes from `stream` alone,
/// what is computed runs on the calling thread. `options` were checked.
at::Tensor augment(const AugmentOptions& options, const image::Picture& picture,
                   RandomStream& stream);

}  // namespace hydrascope::model::training
