// What the CPU's and the GPU's overlay refuse alike.
#pragma once

#include "kernels/error.h"
#include "kernels/overlay/overlay.h"

#include <algorithm>
#include <cstdint>

namespace hydrascope::kernels::overlay {

/// Error(internal) where a precondition of overlay.h does not hold.
inline void check(const OverlayParams& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  const auto bounded = [](std::int64_t pixels, std::int64_t span, std::int64_t cells) {
    return pixels >= 0 && span >= 1 && cells >= 1 && cells < kMost &&
           std::max(pixels, span) < kMost && std::max(pixels, span) * cells < kMost;
  };
  if (!bounded(p.height, p.span_height, p.heat_rows) ||
      !bounded(p.width, p.span_width, p.heat_columns))
    throw Error(ErrorCode::internal,
                "a grid needs at least one cell, and pixels times cells along each side below 2^29",
                "overlay");
  if (!(p.alpha >= 0 && p.alpha <= 1))
    throw Error(ErrorCode::internal, "alpha lies between 0 and 1", "overlay");
}

}  // namespace hydrascope::kernels::overlay
