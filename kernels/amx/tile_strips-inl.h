// Strips of a product (linear/panel.h) by vectors, or in bfloat16 by AMX: one interface for
// attention's own products, whose right-hand sides are panels that another call reads by vectors.
// Depth beyond the last multiple of 32 is added by the strips of panel_product-inl.h.
// Work of a strip of 32 rows: 1 load per product, and a load and a store for each sum; attention's
// depths are short (2 steps for heads of 64), so that the sums' stores count: 1 store for 2 products.
// Included after hwy/highway.h, once per instruction set.
// Test: tests/kernels/amx/tiled_attention_test.cpp.
#if defined(HYDRASCOPE_KERNELS_AMX_TILE_STRIPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_AMX_TILE_STRIPS_INL_H
#undef HYDRASCOPE_KERNELS_AMX_TILE_STRIPS_INL_H
#else
#define HYDRASCOPE_KERNELS_AMX_TILE_STRIPS_INL_H
#endif

#include "kernels/amx/tile_product.h"
#include "kernels/linear/panel_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

class VectorStrips {
 public:
  static constexpr int kRows = kStripRows;
  /// At most kRows rows and the first kColumns columns, 64 or 32.
  template <std::size_t kColumns, class T>
  void multiply(const linear::Strip<T>& s, int rows) {
    strip<kColumns>(s, rows);
  }
};

/// Tiles are configured while it lives.
template <class Tiles>
class TileStrips {
 public:
  static constexpr int kRows = static_cast<int>(amx::kGroupRows);
  explicit TileStrips(Tiles& tiles) : session_(tiles, amx::kTileRows) {}

  /// At most kRows rows, which lie contiguous, and at least the first kColumns columns; C must have
  /// room for 64.
  template <std::size_t kColumns>
  void multiply(const linear::Strip<BFloat16>& s, int rows) {
    const std::int64_t steps = s.depth / amx::kBfloat16StepDepth;
    if (steps == 0) return panel_product<kColumns>(s, rows);
    const int first = rows < amx::kTileRows ? rows : amx::kTileRows;
    session_.configure({first, rows - first});
    const auto* a = reinterpret_cast<const std::byte*>(s.a);
    const std::int64_t a_stride = 2 * s.row_stride;
    amx::tile_product<amx::Elements::bfloat16>(
        session_.tiles(),
        amx::TileProduct{a, rows > first ? a + amx::kTileRows * a_stride : nullptr, a_stride, steps,
                         reinterpret_cast<const std::byte*>(s.panel), amx::kPanelForm,
                         reinterpret_cast<std::byte*>(s.c), s.c_stride * amx::kSumBytes,
                         s.accumulate},
        kColumns);
    const std::int64_t done = steps * amx::kBfloat16StepDepth;
    if (done == s.depth) return;
    linear::Strip<BFloat16> remainder = s;
    remainder.a += done;
    remainder.panel += done * linear::kPanelColumns;
    remainder.depth -= done;
    remainder.accumulate = true;
    panel_product<kColumns>(remainder, rows);
  }

 private:
  amx::TileSession<Tiles> session_;
};

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
