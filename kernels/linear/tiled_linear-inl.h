// Linear layers in bfloat16 by AMX (amx/tile_product.h): groups of 32 rows through a panel into
// sums, and the same epilogue as everywhere. Depth beyond the last multiple of 32 is added to the
// sums by the strips of panel_product-inl.h. Tiles is a parameter so that tests run all of this on
// amx::EmulatedTiles. Tolerance: linear.h. Included after hwy/highway.h, once per instruction set.
// Test: tests/kernels/amx/tiled_layers_test.cpp.
#if defined(HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#endif

#include "kernels/amx/row_groups.h"
#include "kernels/amx/tile_product.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/panel_product-inl.h"
#include "kernels/linear/write_strip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// sums (32, 64) = A * panel for the rows of `group`; s.a is row 0. Rows must lie contiguous.
template <class Tiles>
void tiled_sums(Tiles& tiles, const linear::Strip<BFloat16>& s, int tile_rows,
                const amx::RowGroup& group, float* sums) {
  const std::int64_t steps = s.depth / amx::kBfloat16StepDepth;
  const auto* upper = s.a + group.tile[0].first * s.row_stride;
  const auto* lower = s.a + group.tile[1].first * s.row_stride;
  amx::tile_product<amx::Elements::bfloat16>(
      tiles,
      amx::TileProduct{reinterpret_cast<const std::byte*>(upper),
                       group.tiles == 2 ? reinterpret_cast<const std::byte*>(lower) : nullptr,
                       2 * s.row_stride, steps, reinterpret_cast<const std::byte*>(s.panel),
                       reinterpret_cast<std::byte*>(sums)});
  const std::int64_t done = steps * amx::kBfloat16StepDepth;
  if (done == s.depth) return;
  for (int t = 0; t < group.tiles; ++t) {
    const amx::RowTile& tile = group.tile[t];
    const linear::Strip<BFloat16> remainder{
        s.a + (tile.first + tile.done) * s.row_stride + done,
        s.row_stride,
        2,
        s.depth - done,
        s.panel + done * linear::kPanelColumns,
        sums + (t * amx::kTileRows + tile.done) * linear::kPanelColumns,
        linear::kPanelColumns,
        true};
    panel_product(remainder, tile_rows - tile.done);
  }
}

template <linear::Epilogue kEpilogue, class Tiles>
void tiled_linear_with(Tiles& tiles, const linear::LinearParams<BFloat16>& p) {
  HWY_ALIGN float sums[amx::kGroupRows * linear::kPanelColumns];
  const linear::PackedWeight& weight = *p.weight;
  const int tile_rows = amx::tile_rows(p.rows);
  const amx::TileSession<Tiles> session(tiles, tile_rows);
  const std::int64_t end = p.outputs.end_of(weight.out());
  for (std::int64_t column = p.outputs.first; column < end; column += linear::kPanelColumns) {
    const auto columns = static_cast<std::size_t>(linear::panel_columns(column, weight.out()));
    const float* bias = p.bias == nullptr ? nullptr : p.bias + column;
    const linear::Strip<BFloat16> s{p.x,
                                    p.x_stride,
                                    2,
                                    weight.in(),
                                    weight.panel<BFloat16>(column / linear::kPanelColumns),
                                    sums,
                                    linear::kPanelColumns,
                                    false};
    for (std::int64_t row = 0; row < p.rows; row += amx::kGroupRows) {
      const amx::RowGroup group = amx::row_group(p.rows, row);
      tiled_sums(tiles, s, tile_rows, group, sums);
      for (int t = 0; t < group.tiles; ++t) {
        const amx::RowTile& tile = group.tile[t];
        write_strip<BFloat16, kEpilogue>(
            FloatSums{sums + (t * amx::kTileRows + tile.done) * linear::kPanelColumns},
            tile_rows - tile.done, bias, p.y + (tile.first + tile.done) * p.y_stride + column,
            p.y_stride, columns);
      }
    }
  }
}

template <class Tiles>
void tiled_linear(Tiles& tiles, const linear::LinearParams<BFloat16>& p) {
  if (p.rows <= 0) return;
  switch (p.epilogue) {
    case linear::Epilogue::store: return tiled_linear_with<linear::Epilogue::store>(tiles, p);
    case linear::Epilogue::gelu: return tiled_linear_with<linear::Epilogue::gelu>(tiles, p);
    case linear::Epilogue::add: return tiled_linear_with<linear::Epilogue::add>(tiles, p);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
