// Neighbourhoods on the patch grid (mechanisms/sparse/neighborhood.cpp, longformer.cpp).
#pragma once

#include "model/attention/sparse/sparse_softmax.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model {

/// The patches that a patch sees along both axes: `window` patches around it, every `dilation`-th;
/// at the picture's edge they move inwards or are cut off (`clips`).
struct Neighborhood {
  GridExtent window;
  std::int64_t dilation = 1;
  bool clips = false;
};

/// `num_heads` heads, of which the last `dilated_heads` (0: all) dilate.
std::vector<HeadPattern> neighborhood_heads(const Neighborhood& neighborhood,
                                            std::int64_t num_heads, std::int64_t dilated_heads);

/// The option `border`: does it clip? The first choice is the default.
ChoiceOption<bool> border_option(bool clips_by_default);

}  // namespace hydrascope::model
