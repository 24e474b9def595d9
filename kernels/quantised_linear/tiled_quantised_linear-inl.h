// Quantised linear layers by AMX (amx/tile_product.h): groups of 32 rows through a panel into int32
// sums. Rows and panels end in zeros up to the next multiple of 64 k, so that depth has no tail.
// Tiles is a parameter so that tests run all of this on amx::EmulatedTiles. Tolerance:
// quantised_linear.h. Included after hwy/highway.h, once per instruction set.
// Test: tests/kernels/amx/tiled_layers_test.cpp.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#endif

#include "kernels/amx/row_groups.h"
#include "kernels/amx/tile_product.h"
#include "kernels/linear/write_strip-inl.h"
#include "kernels/quantised_linear/integer_sums-inl.h"
#include "kernels/quantised_linear/quantised_linear.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class T, linear::Epilogue kEpilogue, class Tiles>
void tiled_quantised_with(Tiles& tiles, const quantised_linear::LinearParams<T>& p) {
  HWY_ALIGN std::int32_t sums[amx::kGroupRows * linear::kPanelColumns];
  const quantised_linear::QuantisedWeight& weight = *p.weight;
  const std::int64_t bytes = quantised_linear::row_bytes(weight.in());
  const auto* x = reinterpret_cast<const std::byte*>(p.x.values);
  const int tile_rows = amx::tile_rows(p.rows);
  const amx::TileSession<Tiles> session(tiles, tile_rows);
  for (std::int64_t column = 0; column < weight.out(); column += linear::kPanelColumns) {
    const auto columns = static_cast<std::size_t>(linear::panel_columns(column, weight.out()));
    const float* bias = p.bias == nullptr ? nullptr : p.bias + column;
    const std::int8_t* panel = weight.panel(column / linear::kPanelColumns);
    for (std::int64_t row = 0; row < p.rows; row += amx::kGroupRows) {
      const amx::RowGroup group = amx::row_group(p.rows, row);
      amx::tile_product<amx::Elements::uint8_int8>(
          tiles,
          amx::TileProduct{x + group.tile[0].first * bytes,
                           group.tiles == 2 ? x + group.tile[1].first * bytes : nullptr, bytes,
                           bytes / amx::kInt8StepDepth, reinterpret_cast<const std::byte*>(panel),
                           reinterpret_cast<std::byte*>(sums)});
      for (int t = 0; t < group.tiles; ++t) {
        const int done = group.tile[t].done;
        const std::int64_t first = group.tile[t].first + done;
        write_strip<T, kEpilogue, BFloat16>(
            IntegerSums{sums + (t * amx::kTileRows + done) * linear::kPanelColumns,
                        p.x.scale + first, p.x.least + first, weight.scale() + column,
                        weight.sum() + column},
            tile_rows - done, bias, p.y + first * p.y_stride + column, p.y_stride, columns);
      }
    }
  }
}

template <class T, class Tiles>
void tiled_quantised_linear(Tiles& tiles, const quantised_linear::LinearParams<T>& p) {
  if (p.rows <= 0) return;
  switch (p.epilogue) {
    case linear::Epilogue::store: return tiled_quantised_with<T, linear::Epilogue::store>(tiles, p);
    case linear::Epilogue::gelu: return tiled_quantised_with<T, linear::Epilogue::gelu>(tiles, p);
    case linear::Epilogue::add: return tiled_quantised_with<T, linear::Epilogue::add>(tiles, p);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
