// Class vectors in the place of a classifier: a tower of pictures names classes whose vectors a tower of
// texts made (CLIP, Radford et al. 2021, arXiv 2103.00020; SigLIP, Zhai et al. 2023, arXiv 2303.15343).
#pragma once

#include "app/model/model_source.h"

#include <string>

namespace hydrascope::app {

/// `--classes`: a safetensors file with `vectors` float32 (classes, D) and, in its metadata, `names`, a JSON
/// array of the classes' names, and perhaps `logit_scale` and `logit_bias`, numbers (1 and 0). A logit is
/// logit_scale * cosine + logit_bias; D is the width of the features, or else of the projection behind them
/// (CLIP). Throws Error(invalid_argument) for another D.
void use_class_vectors(const std::string& file, ModelSource& source);

}  // namespace hydrascope::app
