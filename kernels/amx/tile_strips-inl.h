// Strips of a product (linear/panel.h) by vectors, or in bfloat16 by AMX: one interface for
// attention's own products, whose right-hand sides are panels that another call reads by vectors.
// Depth beyond the last multiple of 32 is added by the strips of panel_product-inl.h.
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

  /// At most kRows rows, which lie contiguous, and the first kColumns columns, 64 or 32.
  template <std::size_t kColumns>
  void multiply(const linear::Strip<BFloat16>& s, int rows) {
    const std::int64_t steps = s.depth / amx::kBfloat16StepDepth;
    if (steps == 0) return panel_product<kColumns>(s, rows);
    const int tile_rows = amx::tile_rows(rows);
    session_.configure(tile_rows);
    amx::TileProduct product{reinterpret_cast<const std::byte*>(s.a),
                             2 * s.row_stride,
                             rows - tile_rows,
                             steps,
                             reinterpret_cast<const std::byte*>(s.panel),
                             amx::kPanelForm,
                             reinterpret_cast<std::byte*>(s.c),
                             s.c_stride * amx::kSumBytes,
                             s.accumulate};
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(kColumns);
         column += amx::kHalfColumns) {
      amx::tile_product<amx::Elements::bfloat16>(session_.tiles(), product);
      product.b += product.form.half;
      product.c += amx::kHalfColumns * amx::kSumBytes;
    }
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
