// Where a model's weights are read from: a checkpoint's table, another model, random numbers.
#pragma once

#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>

namespace hydrascope::model {

/// The tensor that the modules know by that name (timm's), on the CPU and of any floating type, as
/// it is stored: it may be a view into a file. Undefined where there is none, and the model keeps
/// the value that it has. Several threads may ask at the same time.
using TensorSource = std::function<at::Tensor(const std::string& name)>;

/// The model's own tensors.
TensorSource tensors_of(const VisionTransformerImpl& model);
/// What `Initialisation::random` gives the layers that `for_loading` leaves out, drawn when it is asked
/// for, the same each time, from a seed of the default generator.
TensorSource random_block_linears(const VisionTransformerImpl& model);

/// Whether it is of one of the blocks' linear layers, which hold nearly all that a model weighs.
bool is_block_linear(std::string_view name);

/// Copies what `source` has of the tensors that are, or are not, of blocks' linear layers.
void fill(VisionTransformerImpl& model, const TensorSource& source, bool block_linears);

}  // namespace hydrascope::model
