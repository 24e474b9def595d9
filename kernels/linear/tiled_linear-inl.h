// Linear layers in bfloat16 by AMX (amx/tile_layer.h), and the same epilogue as everywhere. Depth
// beyond the last multiple of 32 is added to the sums by the strips of panel_product-inl.h. Tiles
// is a parameter so that tests run all of this on amx::EmulatedTiles. Tolerance: linear.h. Included
// after hwy/highway.h, once per instruction set.
// Test: tests/kernels/amx/tiled_layers_test.cpp.
#if defined(HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_TILED_LINEAR_INL_H
#endif

#include "kernels/amx/tile_layer.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/panel_product-inl.h"
#include "kernels/linear/write_strip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// The k behind the last whole step of 32, which lie in panel form behind the weight's tiles.
HWY_INLINE void add_remainder(const linear::LinearParams<BFloat16>& p,
                              const amx::FinishedSums<float>& f, std::int64_t done) {
  const linear::PackedWeight& weight = *p.weight;
  const linear::Strip<BFloat16> remainder{
      p.x + f.row * p.x_stride + done,
      p.x_stride,
      2,
      weight.in() - done,
      weight.panel<BFloat16>(f.panel) + done * linear::kPanelColumns + 2 * f.column,
      f.sums,
      amx::kHalfColumns,
      true};
  panel_product<amx::kHalfColumns>(remainder, f.rows);
}

template <linear::Epilogue kEpilogue, class Tiles>
void tiled_linear_with(Tiles& tiles, const linear::LinearParams<BFloat16>& p) {
  const linear::PackedWeight& weight = *p.weight;
  const std::int64_t steps = weight.in() / amx::kBfloat16StepDepth;
  const std::int64_t done = steps * amx::kBfloat16StepDepth;
  const std::int64_t first = p.outputs.first / linear::kPanelColumns;
  const amx::TileLayer layer{reinterpret_cast<const std::byte*>(p.x),
                             2 * p.x_stride,
                             p.rows,
                             reinterpret_cast<const std::byte*>(weight.panel<BFloat16>(first)),
                             2 * linear::panel_size<BFloat16>(weight.in()),
                             p.outputs.end_of(weight.out()) - p.outputs.first,
                             steps};
  amx::tile_layer<amx::Elements::bfloat16>(tiles, layer, [&](amx::FinishedSums<float> f) {
    f.panel += first;
    if (done < weight.in()) add_remainder(p, f, done);
    const std::int64_t column = f.panel * linear::kPanelColumns + f.column;
    write_strip<BFloat16, kEpilogue>(
        FloatSums{f.sums, amx::kHalfColumns}, f.rows, p.bias == nullptr ? nullptr : p.bias + column,
        p.y + f.row * p.y_stride + column, p.y_stride, static_cast<std::size_t>(f.columns));
  });
}

/// The weight must be in tiles.
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
