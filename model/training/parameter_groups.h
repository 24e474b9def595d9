// The parameters of a model that are trained, and the weight decay and learning rate of each.
#pragma once

#include "model/training/optimizer.h"
#include "model/vision_transformer.h"

#include <string>
#include <vector>

namespace hydrascope::model::training {

/// Groups in the order in which the model's parameters first need them. Vectors, biases, tokens and
/// pos_embed are not decayed (timm's rule). From here on trained parameters require a gradient and
/// the others do not. Throws Error(invalid_argument) for a pattern that matches no parameter and if
/// no parameter is left to train.
std::vector<ParameterGroup> parameter_groups(VisionTransformerImpl& model,
                                             const ParameterGroupOptions& options);

}  // namespace hydrascope::model::training
