// LayerNorm behind the mixing of tokens and in front of the output projection, which Hydra's article
// tries ("+ LN"; Bolya et al. 2022, arXiv 2209.07484).
#pragma once

#include "model/attention/attention.h"

#include <memory>

namespace hydrascope::model {

/// `mixer` and post_norm.{weight,bias} (D), which it adds to the layer: ones and zeros.
std::unique_ptr<TokenMixer> with_post_norm(std::unique_ptr<TokenMixer> mixer,
                                           const TokenMixerArguments& arguments);

}  // namespace hydrascope::model
