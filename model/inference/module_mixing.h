// A mechanism without kernels inside the CPU plan: its module mixes all tokens at once, between two
// passes over the tiles.
#pragma once

#include "model/attention/attention.h"
#include "model/inference/cpu/mixing.h"

namespace hydrascope::model::inference {

/// `mixer` must outlive it. Patches lie row after row at `site`.
AnyMixing module_mixing(TokenMixer& mixer, Kernels kernels, const MixingSite& site,
                        kernels::Storage storage);

}  // namespace hydrascope::model::inference
