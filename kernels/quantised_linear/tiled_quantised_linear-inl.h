// Quantised linear layers by AMX (amx/tile_layer.h). Rows and panels end in zeros up to the next
// multiple of 64 k, so that depth has no tail. Tiles is a parameter so that tests run all of this on
// amx::EmulatedTiles. Tolerance: quantised_linear.h. Included after hwy/highway.h, once per
// instruction set.
// Test: tests/kernels/amx/tiled_layers_test.cpp.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TILED_QUANTISED_LINEAR_INL_H
#endif

#include "kernels/amx/tile_layer.h"
#include "kernels/linear/write_strip-inl.h"
#include "kernels/quantised_linear/integer_sums-inl.h"
#include "kernels/quantised_linear/quantised_linear.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class T, linear::Epilogue kEpilogue, class Tiles>
void tiled_quantised_with(Tiles& tiles, const quantised_linear::LinearParams<T>& p) {
  const quantised_linear::QuantisedWeight& weight = *p.weight;
  const std::int64_t bytes = quantised_linear::row_bytes(weight.in());
  const std::int64_t first = p.outputs.first / linear::kPanelColumns;
  const amx::TileLayer layer{reinterpret_cast<const std::byte*>(p.x.values),
                             bytes,
                             p.rows,
                             reinterpret_cast<const std::byte*>(weight.panel(first)),
                             bytes * linear::kPanelColumns,
                             p.outputs.end_of(weight.out()) - p.outputs.first,
                             bytes / amx::kInt8StepDepth};
  amx::tile_layer<amx::Elements::uint8_int8>(tiles, layer, [&](amx::FinishedSums<std::int32_t> f) {
    f.panel += first;
    const std::int64_t column = f.panel * linear::kPanelColumns + f.column;
    write_strip<T, kEpilogue, BFloat16>(
        IntegerSums{f.sums, p.x.scale + f.row, p.x.least + f.row, weight.scale() + column,
                    weight.sum() + column, amx::kHalfColumns},
        f.rows, p.bias == nullptr ? nullptr : p.bias + column, p.y + f.row * p.y_stride + column,
        p.y_stride, static_cast<std::size_t>(f.columns));
  });
}

/// The weight must be in tiles.
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
