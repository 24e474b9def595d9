// The micro-kernel of matrix products by AMX: C (+)= A (rows, depth) * B, in bfloat16 and in 8 bits.
// Tiles is AmxTiles, or EmulatedTiles where there is no AMX.
//
// Equation: C[i][j] = sum_k A[i][k] B[k][j]; one instruction adds 32 k (bfloat16) or 64 k (8 bits)
//   for 16 rows and 16 columns: Intel's manual, volume 2, TDPBF16PS and TDPBUSD.
// Tensors: A row-major, rows any stride apart, 64 contiguous bytes of each row per step. A tile of
//   B is 16 rows of 64 bytes, each a group of k (2 of bfloat16, 4 of int8) of 16 columns; TileForm
//   says where tiles and rows lie: in a panel (linear/panel.h), or as weights are packed for AMX
//   (tile_weights.h). C in float32 or int32, any stride.
// Work: 32 rows pass over 32 columns, 2 x 2 tiles. A step is 4 loads of a KiB and 4 products of
//   2 * 16 * 16 * 32 FLOPs (8 bits: twice as many): 16 FLOPs per byte, where single tiles (2 loads per
//   product) have 8. The eight registers are 4 sums and 2 + 2 operands; 3 x 1 and 4 x 1 load more
//   (4 / 3 and 5 / 4 loads per product). Four sums also cover most of a product's latency of 52 cycles.
//   Sums that C continues cost one load each.
// Rows: the second tile of A ends at the last row and overlaps the first one where there are fewer
//   than 32. Rows of both tiles are computed twice, with the same sums, so that nothing behind the
//   last row is read or written. Fewer than 16 rows are two equal tiles of as many rows.
// Numerics: float32 sums in the order of k, with the even and the odd k of each 32 summed apart and
//   both sums added to C. vdpbf16ps, which adds one pair after the other, rounds differently.
//   Subnormals count as zero in both. int32 sums are exact. A row's result does not depend on the
//   other rows of its tile, nor on the steps of a call: a sum that waits in C is a float32 like a
//   tile's. Tolerance: none, because the test's sums are exact.
// Preconditions: tiles configured by a TileSession with tile_rows(rows).
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
inline constexpr std::int64_t kHalfColumns = kPanelColumns / 2;  ///< columns of two tiles
inline constexpr std::int64_t kTileBytes = kTileRows * kTileRowBytes;
inline constexpr std::int64_t kPanelRowBytes = 256;  ///< one group of k, 64 columns
inline constexpr std::int64_t kPanelStepBytes = 16 * kPanelRowBytes;
inline constexpr std::int64_t kSumBytes = 4;
inline constexpr std::int64_t kLineBytes = 64;
inline constexpr std::int64_t kGroupRows = 2 * kTileRows;  ///< rows of A that share loads of B

/// The rows of a tile of A where `rows` are left.
constexpr int tile_rows(std::int64_t rows) {
  return rows < kTileRows ? static_cast<int>(rows) : kTileRows;
}

/// Bytes from one part of B to the next.
struct TileForm {
  std::int64_t row;   ///< a tile's rows
  std::int64_t tile;  ///< the two tiles of a half of 32 columns
  std::int64_t half;  ///< both halves of 64 columns
  std::int64_t step;
};
inline constexpr TileForm kPanelForm{kPanelRowBytes, kTileRowBytes, 2 * kTileRowBytes,
                                     kPanelStepBytes};

/// Memory that a product asks for while it multiplies.
struct Ahead {
  const std::byte* first = nullptr;
  std::int64_t lines = 0;
};

struct TileProduct {
  const std::byte* a;
  std::int64_t a_stride;  ///< bytes from row to row
  std::int64_t lower;     ///< the row of A and of C where the second tile begins, at most 16
  std::int64_t steps;     ///< number of steps, 64 bytes of A each
  const std::byte* b;
  TileForm form;
  std::byte* c;
  std::int64_t c_stride;
  bool accumulate = false;  ///< to the sums in C
  Ahead ahead{};
};

template <Elements kElements, class Tiles, int kSum, int kA, int kB>
void dot(Tiles& tiles, Tile<kSum> sum, Tile<kA> a, Tile<kB> b) {
  if constexpr (kElements == Elements::bfloat16)
    tiles.dot_bfloat16(sum, a, b);
  else
    tiles.dot_uint8_int8(sum, a, b);
}

template <class Tiles, int kSum>
void begin_sum(Tiles& tiles, Tile<kSum> sum, const TileProduct& p, std::byte* c) {
  if (p.accumulate)
    tiles.load(sum, c, p.c_stride);
  else
    tiles.zero(sum);
}

/// Asks for an even share of the lines at each step.
template <class Tiles>
class LinesAhead {
 public:
  LinesAhead(Tiles& tiles, const Ahead& ahead, std::int64_t steps)
      : tiles_(tiles),
        at_(ahead.first),
        left_(ahead.lines),
        share_(steps == 0 ? 0 : (ahead.lines + steps - 1) / steps) {}
  void step() {
    for (std::int64_t i = 0; i < share_ && left_ > 0; ++i, --left_, at_ += kLineBytes)
      tiles_.prefetch(at_);
  }

 private:
  Tiles& tiles_;
  const std::byte* at_;
  std::int64_t left_;
  std::int64_t share_;
};

/// 2 x 2 tiles: 32 columns.
template <Elements kElements, class Tiles>
void tile_product(Tiles& tiles, const TileProduct& p) {
  const std::byte* upper = p.a;
  const std::byte* lower = p.a + p.lower * p.a_stride;
  const std::byte* b = p.b;
  const std::int64_t a_stride = p.a_stride;
  const TileForm form = p.form;
  std::byte* const c = p.c;
  std::byte* const lower_c = c + p.lower * p.c_stride;
  constexpr std::int64_t kNextSums = kTileRows * kSumBytes;
  begin_sum(tiles, kSum0, p, c);
  begin_sum(tiles, kSum1, p, c + kNextSums);
  begin_sum(tiles, kSum2, p, lower_c);
  begin_sum(tiles, kSum3, p, lower_c + kNextSums);
  LinesAhead ahead(tiles, p.ahead, p.steps);
  for (std::int64_t step = p.steps; step > 0; --step) {
    tiles.load(kFirstA, upper, a_stride);
    tiles.load(kFirstB, b, form.row);
    dot<kElements>(tiles, kSum0, kFirstA, kFirstB);
    tiles.load(kSecondB, b + form.tile, form.row);
    dot<kElements>(tiles, kSum1, kFirstA, kSecondB);
    tiles.load(kSecondA, lower, a_stride);
    dot<kElements>(tiles, kSum2, kSecondA, kFirstB);
    dot<kElements>(tiles, kSum3, kSecondA, kSecondB);
    ahead.step();
    upper += kTileRowBytes;
    lower += kTileRowBytes;
    b += form.step;
  }
  tiles.store(kSum0, c, p.c_stride);
  tiles.store(kSum1, c + kNextSums, p.c_stride);
  tiles.store(kSum2, lower_c, p.c_stride);
  tiles.store(kSum3, lower_c + kNextSums, p.c_stride);
}

}  // namespace hydrascope::kernels::amx
