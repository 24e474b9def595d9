// What the CPU's and the GPU's overlay refuse alike.
#pragma once

#include "kernels/error.h"
#include "kernels/overlay/overlay.h"

#include <cstdint>

namespace hydrascope::kernels::overlay {

/// Error(internal) where a precondition of overlay.h does not hold.
inline void check(const OverlayParams& p) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 29;
  constexpr std::int64_t kMostUnits = std::int64_t{1} << 61;
  for (const Edge& e : {p.vertical, p.horizontal}) {
    if (e.cells < 1 || e.cells >= kMostPixels || e.pixels < 0 || e.pixels >= kMostPixels)
      throw Error(ErrorCode::internal,
                  "a grid needs at least one cell, and less than 2^29 per side", "overlay");
    const bool is_exact = e.step >= 1 && e.step < kMostUnits / 2 / (e.pixels + 1) &&
                          e.half_cell >= 1 && e.half_cell < kMostUnits / 2 &&
                          e.start > -kMostUnits && e.start < kMostUnits;
    if (!is_exact)
      throw Error(ErrorCode::internal, "a grid's place needs whole numbers below 2^61", "overlay");
    if (e.seen_begin < 0 || e.seen_begin > e.seen_end || e.seen_end > e.pixels)
      throw Error(ErrorCode::internal, "what is seen lies within the picture", "overlay");
  }
  const auto is_share = [](float value) { return value >= 0 && value <= 1; };
  if (!is_share(p.alpha) || !is_share(p.unseen_brightness))
    throw Error(ErrorCode::internal, "alpha and brightness lie between 0 and 1", "overlay");
}

}  // namespace hydrascope::kernels::overlay
