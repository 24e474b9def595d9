// Windows of the patch grid (mechanisms/sparse/window.cpp).
#pragma once

#include "model/attention/sparse/sparse_softmax.h"

#include <cstdint>
#include <memory>

namespace hydrascope::model {

/// A patch sees its own window, grown by `halo` patches. Windows are the balanced intervals
/// (balanced_intervals.h) of both axes, none longer than `size`. `shifted`: the borders are the
/// middles of the intervals.
std::unique_ptr<KeyPattern> window_pattern(const GridExtent& size, std::int64_t halo = 0,
                                           bool shifted = false);

}  // namespace hydrascope::model
