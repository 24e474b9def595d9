// Weights as AMX reads them: a panel of 64 columns (linear/panel.h) with its bytes in another order,
// [half of 32 columns][step][tile of 16 columns][16 groups of k][64 bytes]. A tile is a KiB without
// gaps, which the processor's prefetcher foresees, and 8 steps of a half are 16 KiB that fill L1's
// sets evenly; in a panel they would be 128 bytes of every 256. k behind the last whole step stay as
// they are, at the panel's end. Test: tests/kernels/amx/tile_product_test.cpp.
#pragma once

#include "kernels/amx/tile_product.h"

#include <cstring>
#include <vector>

namespace hydrascope::kernels::amx {

inline constexpr std::int64_t kHalfStepBytes = 2 * kTileBytes;

constexpr TileForm weight_form(std::int64_t steps) {
  return {kTileRowBytes, kTileBytes, steps * kHalfStepBytes, kHalfStepBytes};
}

/// Brings the whole steps of a panel into that order, in place.
inline void order_as_tiles(std::byte* panel, std::int64_t steps) {
  const std::vector<std::byte> from(panel, panel + steps * kPanelStepBytes);
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t step = 0; step < steps; ++step)
      for (std::int64_t tile = 0; tile < 2; ++tile)
        for (std::int64_t row = 0; row < kTileRows; ++row, panel += kTileRowBytes)
          std::memcpy(panel,
                      from.data() + step * kPanelForm.step + row * kPanelForm.row +
                          half * kPanelForm.half + tile * kPanelForm.tile,
                      static_cast<std::size_t>(kTileRowBytes));
}

}  // namespace hydrascope::kernels::amx
