// The parameters of a model that are trained, and the weight decay and learning rate of each.
#pragma once

#include "model/training/optimizer.h"
#include "model/vision_transformer.h"

#include <string>
#include <vector>

namespace hydrascope::model::training {

struct ParameterGroupOptions {
  double weight_decay = 0.05;
  /// Layer l of depth + 2 learns at layer_decay^(depth + 1 - l) times the rate (Clark et al. 2020,
  /// arXiv 2003.10555; as BEiT and timm's param_groups_layer_decay): the embeddings are layer 0,
  /// block i is layer i + 1, the norm after the blocks belongs to the last block's layer, the heads
  /// are the last layer.
  double layer_decay = 1;
  /// The factor for parameters that an attention mechanism adds to its layer (feature maps,
  /// scales), besides layer_decay's.
  double mechanism_rate_scale = 1;
  /// Patterns of names: `blocks.10.*`, `head`; a name alone means everything below it. A parameter
  /// is trained if any of `train` matches (all when empty) and none of `freeze`.
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};
};

/// Groups in the order in which the model's parameters first need them. Vectors, biases, tokens and
/// pos_embed are not decayed (timm's rule). From here on trained parameters require a gradient and
/// the others do not. Throws Error(invalid_argument) for a pattern that matches no parameter and if
/// no parameter is left to train.
std::vector<ParameterGroup> parameter_groups(VisionTransformerImpl& model,
                                             const ParameterGroupOptions& options);

}  // namespace hydrascope::model::training
