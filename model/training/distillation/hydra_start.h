// The start of a Hydra layer that replaces a trained attention. With the teacher's own q and k its
// output has nothing to do with the teacher's: unit vectors of hundreds of signed features cancel.
// Here q and k get a positive offset, so that the unit vectors are nearly constant and the layer
// begins as a global mean of the values with small modulations. A scale for each feature fits this
// mean to the output of the teacher's attention (this project's; worth more than any other choice
// in a conversion).
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/parallel/process_group.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace hydrascope::model::training {

/// Sets, in each of `layers` of `student`:
///   rows of qkv for q and k  so that each feature has mean 1 and deviation 0.3 over all tokens of
///                            the images;
///   attn.feature_scale       s_f = sum y_f t_f / sum y_f^2, the least-squares fit of the mixer's
///                            output y to the teacher's t (before proj); in the last block at the
///                            tokens that are read. A layer without that parameter has the columns
///                            of proj multiplied instead.
/// `images` gives the same batches (B, 3, H, W) at every call with 0, 1, ... and nothing at the
/// end; it is asked twice. Means and fits are over the images of all ranks, which end with the same
/// weights. A model without biases in qkv keeps its q and k, and so does a layer with windows
/// (local=window7), which read them as the teacher does: its scale fits the windows' rest.
void start_hydra_layers(Teacher& teacher, VisionTransformerImpl& student,
                        const std::vector<std::int64_t>& layers,
                        const std::function<std::optional<at::Tensor>(std::int64_t)>& images,
                        ProcessGroup& group);

}  // namespace hydrascope::model::training
