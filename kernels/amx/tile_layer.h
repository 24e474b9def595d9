// A linear layer's products by AMX: rows A (rows, depth) through all panels of a weight, for bfloat16
// and for 8 bits; `finish` gets the sums while they are in L1.
//
// Order: for each half panel (32 columns), blocks of at most 8 steps; through each block pass all
//   pairs of tiles (32 rows). A block of B is 16 KiB and A's part of a pair as much: between two
//   readings of a line of B pass 32 KiB and 4 KiB of sums, so that B stays in L1's 48 KiB and only A
//   comes from L2.
// Sums of up to 6 pairs wait for the next block: 24 KiB, in L2. With depth 768 (3 blocks) that is 2
//   loads and 3 stores of a sum for 24 products: 1.08 loads per product.
// Next block: the first passage of a block asks for the lines of the next one, which lie behind it in
//   the weight's order, in even shares of its steps: with 6 pairs 5.3 lines a step. So weights come
//   from the shared cache while tiles multiply. Each line is asked for once, and nothing outside the
//   weight.
// A tile without a second one (at most 16 of the rows) passes through the panel alone, after the
//   pairs: 5 loads for 4 products.
// Bound, by arithmetic (no processor with AMX has measured it): a step of four products takes the
//   multiplying unit 64 cycles. Its loads take 66 at depth 768 and 192 rows, where L2 gives some 48
//   bytes a cycle and L1 128: A 43, B 16, sums 7. Tiles so multiply in 97 % of the time between two
//   epilogues; with all loads from L2 they would in 75 %.
// Test: tests/kernels/amx/tiled_layers_test.cpp counts loads, prefetches and products.
#pragma once

#include "kernels/amx/row_groups.h"
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
  int rows;
  Sum* sums;
  std::int64_t stride;  ///< sums from row to row: 32, or 64
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
        pairs_((layer.rows + kTileRows - 1) / kGroupRows),
        blocks_((layer.steps + kBlockSteps - 1) / kBlockSteps) {}

  void run() {
    const TileSession<Tiles> session(tiles_, tile_rows_);
    for (panel_ = 0; panel_ < linear::panels_of(layer_.columns); ++panel_) {
      columns_ = linear::panel_columns(panel_ * kPanelColumns, layer_.columns);
      for (std::int64_t half = 0; half < halves(columns_); ++half) pass_pairs(half);
      if (pairs_ * kGroupRows < layer_.rows) pass_single();
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
          const RowGroup group = row_group(layer_.rows, (first + i) * kGroupRows);
          Sum* const sums = sums_ + i * kGroupRows * kHalfColumns;
          const std::int64_t from = behind.lines() * i / count;
          const std::byte* const a = layer_.a + now.begin * kTileRowBytes;
          pair_product<kElements>(tiles_, TileProduct{a + group.tile[0].first * layer_.a_stride,
                                                      a + group.tile[1].first * layer_.a_stride,
                                                      layer_.a_stride,
                                                      now.end - now.begin,
                                                      now.b,
                                                      form_,
                                                      reinterpret_cast<std::byte*>(sums),
                                                      kHalfColumns * kSumBytes,
                                                      index > 0,
                                                      {behind.b + from * kLineBytes,
                                                       behind.lines() * (i + 1) / count - from}});
          if (index + 1 < blocks_) continue;
          const std::int64_t column = half * kHalfColumns;
          const std::int64_t columns = std::min(kHalfColumns, columns_ - column);
          for (int t = 0; t < 2; ++t)
            finish(group.tile[t], sums + t * kTileRows * kHalfColumns, column, columns,
                   kHalfColumns);
        }
      }
    }
  }

  void pass_single() {
    const RowTile tile = row_tile(layer_.rows, pairs_ * kGroupRows);
    Ahead ahead;
    // Without pairs nobody has asked for the next panel.
    if (pairs_ == 0 && panel_ + 1 < linear::panels_of(layer_.columns))
      ahead = {block(panel_ + 1, 0, 0).b, 2 * layer_.steps * kHalfStepBytes / kLineBytes};
    single_product<kElements>(
        tiles_,
        TileProduct{layer_.a + tile.first * layer_.a_stride, nullptr, layer_.a_stride, layer_.steps,
                    block(panel_, 0, 0).b, form_, reinterpret_cast<std::byte*>(sums_),
                    kPanelColumns * kSumBytes, false, ahead});
    finish(tile, sums_, 0, columns_, kPanelColumns);
  }

  void finish(const RowTile& tile, Sum* sums, std::int64_t column, std::int64_t columns,
              std::int64_t stride) {
    finish_(FinishedSums<Sum>{panel_, column, columns, tile.first + tile.done,
                              tile_rows_ - tile.done, sums + tile.done * stride, stride});
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
