// A linear layer's products by AMX: rows A (rows, depth) through all panels of a weight, for bfloat16
// and for 8 bits; `finish` gets the sums while they are in L1.
//
// Order: for each half panel (32 columns), blocks of at most 8 steps; through each block pass all
//   pairs of tiles (32 rows). A block of B is 16 KiB and A's part of a pair as much, so that B stays in
//   L1's 48 KiB and only A comes from L2.
// Sums of up to 6 pairs wait for the next block: 24 KiB, in L2.
// Next block: the first passage of a block asks for the lines of the next one, which lie behind it in
//   the weight's order, in even shares of its steps. So weights come from the shared cache while tiles
//   multiply. Each line is asked for once, and nothing outside the weight.
// Rows: the last pair ends at the last row and overlaps the pair before it; tile_product.h says what
//   happens to fewer than 32. So one configuration serves the whole call, and every cut rounds a row
//   the same way: results depend neither on the tiling nor on the threads.
// Test: tests/kernels/amx/tiled_layers_test.cpp.
#pragma once

#include "kernels/amx/tile_weights.h"

#include <algorithm>
#include <type_traits>

namespace hydrascope::kernels::amx {

inline constexpr std::int64_t kBlockSteps = 8;  ///< at most, between two readings of the sums
inline constexpr std::int64_t kMostPairs = 6;   ///< whose sums wait

struct TileLayer {
  const std::byte* a;
  std::int64_t a_stride;  ///< bytes
  std::int64_t rows;      ///< at least 1
  const std::byte* weight;
  std::int64_t panel_bytes;
  std::int64_t columns;  ///< of all panels
  std::int64_t steps;    ///< at least 1
};

template <Elements kElements>
using SumOf = std::conditional_t<kElements == Elements::bfloat16, float, std::int32_t>;

/// Sums of rows `row` .. `row + rows` and columns `column` .. `column + columns` of a panel.
template <class Sum>
struct FinishedSums {
  std::int64_t panel;
  std::int64_t column;
  std::int64_t columns;
  std::int64_t row;
  int rows;   ///< at most 32
  Sum* sums;  ///< rows kHalfColumns apart
};

template <Elements kElements, class Tiles, class Finish>
class LayerProduct {
  using Sum = SumOf<kElements>;

 public:
  LayerProduct(Tiles& tiles, const TileLayer& layer, const Finish& finish)
      : tiles_(tiles),
        layer_(layer),
        finish_(finish),
        form_(weight_form(layer.steps)),
        tile_rows_(tile_rows(layer.rows)),
        pairs_((layer.rows + kGroupRows - 1) / kGroupRows),
        blocks_((layer.steps + kBlockSteps - 1) / kBlockSteps) {}

  void run() {
    const TileSession<Tiles> session(tiles_, tile_rows_);
    for (panel_ = 0; panel_ < linear::panels_of(layer_.columns); ++panel_) {
      columns_ = linear::panel_columns(panel_ * kPanelColumns, layer_.columns);
      for (std::int64_t half = 0; half < halves(columns_); ++half) pass_pairs(half);
    }
  }

 private:
  /// Steps begin .. end of a half panel.
  struct Block {
    const std::byte* b = nullptr;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t lines() const { return (end - begin) * kHalfStepBytes / kLineBytes; }
  };

  static std::int64_t halves(std::int64_t columns) { return columns > kHalfColumns ? 2 : 1; }

  [[nodiscard]] Block block(std::int64_t panel, std::int64_t half, std::int64_t index) const {
    const std::int64_t begin = layer_.steps * index / blocks_;
    return {layer_.weight + panel * layer_.panel_bytes + half * form_.half + begin * form_.step,
            begin, layer_.steps * (index + 1) / blocks_};
  }

  /// The block that is read after this one; empty after the last.
  [[nodiscard]] Block next(std::int64_t half, std::int64_t index) const {
    if (index + 1 < blocks_) return block(panel_, half, index + 1);
    if (half + 1 < halves(columns_)) return block(panel_, half + 1, 0);
    if (panel_ + 1 < linear::panels_of(layer_.columns)) return block(panel_ + 1, 0, 0);
    return {};
  }

  void pass_pairs(std::int64_t half) {
    for (std::int64_t first = 0; first < pairs_; first += kMostPairs) {
      const std::int64_t count = std::min(kMostPairs, pairs_ - first);
      for (std::int64_t index = 0; index < blocks_; ++index) {
        const Block now = block(panel_, half, index);
        const Block behind = first == 0 ? next(half, index) : Block{};
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t row = (first + i) * kGroupRows;
          const std::int64_t upper = std::min(row, layer_.rows - tile_rows_);
          const std::int64_t lower = std::min(row + kTileRows, layer_.rows - tile_rows_);
          Sum* const sums = sums_ + i * kGroupRows * kHalfColumns;
          const std::int64_t from = behind.lines() * i / count;
          tile_product<kElements>(
              tiles_,
              TileProduct{layer_.a + now.begin * kTileRowBytes + upper * layer_.a_stride,
                          layer_.a_stride,
                          lower - upper,
                          now.end - now.begin,
                          now.b,
                          form_,
                          reinterpret_cast<std::byte*>(sums),
                          kHalfColumns * kSumBytes,
                          index > 0,
                          {behind.b + from * kLineBytes, behind.lines() * (i + 1) / count - from}});
          if (index + 1 < blocks_) continue;
          const std::int64_t column = half * kHalfColumns;
          finish_(FinishedSums<Sum>{panel_, column, std::min(kHalfColumns, columns_ - column), row,
                                    static_cast<int>(std::min(kGroupRows, layer_.rows - row)),
                                    sums + (row - upper) * kHalfColumns});
        }
      }
    }
  }

  Tiles& tiles_;
  const TileLayer& layer_;
  const Finish& finish_;
  TileForm form_;
  int tile_rows_;
  std::int64_t pairs_;
  std::int64_t blocks_;
  std::int64_t panel_ = 0;
  std::int64_t columns_ = 0;
  alignas(64) Sum sums_[kMostPairs * kGroupRows * kHalfColumns];
};

template <Elements kElements, class Tiles, class Finish>
void tile_layer(Tiles& tiles, const TileLayer& layer, const Finish& finish) {
  LayerProduct<kElements, Tiles, Finish>(tiles, layer, finish).run();
}

}  // namespace hydrascope::kernels::amx
