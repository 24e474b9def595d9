// The micro-kernel of matrix products by AMX: C (rows, 64) = A (rows, depth) * panel, for linear
// layers in bfloat16 and in 8 bits. Tiles is AmxTiles, or EmulatedTiles where there is no AMX.
//
// Equation: C[i][j] = sum_k A[i][k] B[k][j]; one instruction adds 32 k (bfloat16) or 64 k (8 bits)
//   for 16 rows and 16 columns: Intel's manual, volume 2, TDPBF16PS and TDPBUSD.
// Tensors: A row-major, rows any stride apart, 64 contiguous bytes of each row per step. Panels as
//   linear/panel.h and QuantisedWeight pack them: panel[k / 2][64][2] of bfloat16 and
//   panel[k / 4][64][4] of int8 are rows of 256 bytes, 16 rows per step; a tile of B is 64 bytes of
//   each. C in float32 or int32, written whole, rows of 64, the second tile's rows after the 16 of
//   the first one.
// Work: blocks of 32 rows and 32 columns, twice for a panel. A step of a block is 4 loads of a KiB
//   and 4 products of 2 * 16 * 16 * 32 FLOPs (8 bits: twice as many): 16 FLOPs per byte, where
//   single tiles (2 loads per product) have 8. The eight registers are 4 sums and 2 + 2 operands; 3
//   x 1 and 4 x 1 load more (4 / 3 and 5 / 4 loads per product). A product takes its unit 16 cycles
//   and a load of 16 lines two ports 8 (Intel's numbers for Sapphire Rapids; not measured here): 64
//   cycles of products against 32 of loads, but L2 must give 64 bytes a cycle when nothing stays in
//   L1. Four sums also cover most of a product's latency of 52 cycles. Rows for a single tile make
//   a block of 1 x 4: 5 loads for 4 products, again four sums.
// Numerics: float32 sums in the order of k, with the even and the odd k of each 32 summed apart and
//   both sums added to C. vdpbf16ps, which adds one pair after the other, rounds differently.
//   Subnormals count as zero in both. int32 sums are exact. A row's result does not depend on the
//   other rows of its tile. Tolerance: none, because the test's sums are exact.
// Preconditions: tiles configured by a TileSession with the rows of A's tiles.
// Test: tests/kernels/amx/tile_product_test.cpp; twin: EmulatedTiles, and linear_reference.h.
#pragma once

#include "kernels/amx/tile_configuration.h"
#include "kernels/linear/panel.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::amx {

enum class Elements { bfloat16, uint8_int8 };

inline constexpr std::int64_t kBfloat16StepDepth = 32;  ///< k of a step
inline constexpr std::int64_t kInt8StepDepth = 64;
using linear::kPanelColumns;
inline constexpr std::int64_t kPanelRowBytes = 256;  ///< one group of k, 64 columns
inline constexpr std::int64_t kPanelStepBytes = 16 * kPanelRowBytes;
inline constexpr std::int64_t kSumRowBytes = 4 * kPanelColumns;
inline constexpr std::int64_t kGroupRows = 2 * kTileRows;  ///< rows of A that share panel loads

struct TileProduct {
  const std::byte* upper;  ///< A's rows of the first tile
  const std::byte* lower;  ///< A's rows of the second tile; null: there is none
  std::int64_t a_stride;   ///< bytes from row to row
  std::int64_t steps;      ///< number of steps, 64 bytes of A each
  const std::byte* panel;
  std::byte* c;
};

template <Elements kElements, class Tiles, int kSum, int kA, int kB>
void dot(Tiles& tiles, Tile<kSum> sum, Tile<kA> a, Tile<kB> b) {
  if constexpr (kElements == Elements::bfloat16)
    tiles.dot_bfloat16(sum, a, b);
  else
    tiles.dot_uint8_int8(sum, a, b);
}

/// 2 x 2 tiles, twice.
template <Elements kElements, class Tiles>
void two_tiles_of_rows(Tiles& tiles, const TileProduct& p) {
  for (std::int64_t half = 0; half < kPanelRowBytes; half += 2 * kTileRowBytes) {
    const std::byte* upper = p.upper;
    const std::byte* lower = p.lower;
    const std::byte* b = p.panel + half;
    const std::int64_t a_stride = p.a_stride;
    tiles.zero(kSum0);
    tiles.zero(kSum1);
    tiles.zero(kSum2);
    tiles.zero(kSum3);
    for (std::int64_t step = p.steps; step > 0; --step) {
      tiles.load(kFirstA, upper, a_stride);
      tiles.load(kFirstB, b, kPanelRowBytes);
      dot<kElements>(tiles, kSum0, kFirstA, kFirstB);
      tiles.load(kSecondB, b + kTileRowBytes, kPanelRowBytes);
      dot<kElements>(tiles, kSum1, kFirstA, kSecondB);
      tiles.load(kSpare, lower, a_stride);
      dot<kElements>(tiles, kSum2, kSpare, kFirstB);
      dot<kElements>(tiles, kSum3, kSpare, kSecondB);
      upper += kTileRowBytes;
      lower += kTileRowBytes;
      b += kPanelStepBytes;
    }
    std::byte* c = p.c + half;
    tiles.store(kSum0, c, kSumRowBytes);
    tiles.store(kSum1, c + kTileRowBytes, kSumRowBytes);
    c += kTileRows * kSumRowBytes;
    tiles.store(kSum2, c, kSumRowBytes);
    tiles.store(kSum3, c + kTileRowBytes, kSumRowBytes);
  }
}

/// 1 x 4 tiles: the panel's 64 columns at once.
template <Elements kElements, class Tiles>
void one_tile_of_rows(Tiles& tiles, const TileProduct& p) {
  const std::byte* a = p.upper;
  const std::byte* b = p.panel;
  const std::int64_t a_stride = p.a_stride;
  tiles.zero(kSum0);
  tiles.zero(kSum1);
  tiles.zero(kSum2);
  tiles.zero(kSum3);
  for (std::int64_t step = p.steps; step > 0; --step) {
    tiles.load(kFirstA, a, a_stride);
    tiles.load(kSpare, b, kPanelRowBytes);
    dot<kElements>(tiles, kSum0, kFirstA, kSpare);
    tiles.load(kFirstB, b + kTileRowBytes, kPanelRowBytes);
    dot<kElements>(tiles, kSum1, kFirstA, kFirstB);
    tiles.load(kSecondB, b + 2 * kTileRowBytes, kPanelRowBytes);
    dot<kElements>(tiles, kSum2, kFirstA, kSecondB);
    tiles.load(kSpare, b + 3 * kTileRowBytes, kPanelRowBytes);
    dot<kElements>(tiles, kSum3, kFirstA, kSpare);
    a += kTileRowBytes;
    b += kPanelStepBytes;
  }
  tiles.store(kSum0, p.c, kSumRowBytes);
  tiles.store(kSum1, p.c + kTileRowBytes, kSumRowBytes);
  tiles.store(kSum2, p.c + 2 * kTileRowBytes, kSumRowBytes);
  tiles.store(kSum3, p.c + 3 * kTileRowBytes, kSumRowBytes);
}

template <Elements kElements, class Tiles>
void tile_product(Tiles& tiles, const TileProduct& p) {
  if (p.lower != nullptr)
    two_tiles_of_rows<kElements>(tiles, p);
  else
    one_tile_of_rows<kElements>(tiles, p);
}

}  // namespace hydrascope::kernels::amx
