#include "kernels/linear/linear.h"

#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/linear.cpp"
// clang-format off: the first include repeats the rest of the file.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/amx/amx_tiles.h"
#include "kernels/linear/panel_product-inl.h"
#include "kernels/linear/tiled_linear-inl.h"
#include "kernels/linear/write_strip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class T, linear::Epilogue kEpilogue>
void linear_with(const linear::LinearParams<T>& p) {
  HWY_ALIGN float sums[kStripRows * linear::kPanelColumns];
  const linear::PackedWeight& weight = *p.weight;
  const std::int64_t end = p.outputs.end_of(weight.out());
  for (std::int64_t column = p.outputs.first; column < end; column += linear::kPanelColumns) {
    const auto columns = static_cast<std::size_t>(linear::panel_columns(column, weight.out()));
    linear::Strip<T> s{p.x,
                       p.x_stride,
                       sizeof(T) == 2 ? 2 : 1,
                       weight.in(),
                       weight.template panel<T>(column / linear::kPanelColumns),
                       sums,
                       linear::kPanelColumns,
                       false};
    for (std::int64_t row = 0; row < p.rows; row += kStripRows, s.a += kStripRows * p.x_stride) {
      const int rows = static_cast<int>(p.rows - row < kStripRows ? p.rows - row : kStripRows);
      strip(s, rows);
      write_strip<T, kEpilogue>(FloatSums{sums}, rows,
                                p.bias == nullptr ? nullptr : p.bias + column,
                                p.y + row * p.y_stride + column, p.y_stride, columns);
    }
  }
}

template <class T>
void linear_of(const linear::LinearParams<T>& p) {
  switch (p.epilogue) {
    case linear::Epilogue::store: return linear_with<T, linear::Epilogue::store>(p);
    case linear::Epilogue::gelu: return linear_with<T, linear::Epilogue::gelu>(p);
    case linear::Epilogue::add: return linear_with<T, linear::Epilogue::add>(p);
  }
}

void linear_float32(const linear::LinearParams<float>& p) { linear_of(p); }
void linear_bfloat16(const linear::LinearParams<BFloat16>& p) {
#if HWY_TARGET == HWY_AVX3  // every processor that has AMX has it
  if (p.weight->has_tiles()) {
    amx::AmxTiles tiles;
    return tiled_linear(tiles, p);
  }
#endif
  linear_of(p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::linear {

PackedWeight::PackedWeight(Storage storage, const float* weight, std::int64_t out, std::int64_t in,
                           std::int64_t row_stride, Form form)
    : storage_(storage), in_(in), out_(out) {
  const std::int64_t panels = panels_of(out);
  if (storage == Storage::float32) {
    panels_ =
        AlignedBuffer<std::byte>(static_cast<std::size_t>(panels * panel_size<float>(in)) * 4);
    fill<float>(weight, row_stride);
  } else {
    panels_ =
        AlignedBuffer<std::byte>(static_cast<std::size_t>(panels * panel_size<BFloat16>(in)) * 2);
    fill<BFloat16>(weight, row_stride);
    const std::int64_t steps = in / amx::kBfloat16StepDepth;
    has_tiles_ = steps > 0 &&
                 (form == Form::tiles || (form == Form::automatic &&
                                          device::may_use(device::MatrixInstruction::amx_bf16)));
    if (!has_tiles_) return;
    for (std::int64_t panel = 0; panel < panels; ++panel)
      amx::order_as_tiles(panels_.data() + 2 * panel * panel_size<BFloat16>(in), steps);
  }
}

template <class T>
void PackedWeight::fill(const float* weight, std::int64_t row_stride) {
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return T(weight[column * row_stride + row]);
  };
  fill_panels<sizeof(T) == 2 ? 2 : 1>(panel_size<T>(in_) / kPanelColumns, in_, out_, at,
                                      reinterpret_cast<T*>(panels_.data()));
}

HYDRASCOPE_DISPATCH(linear, linear, LinearParams)

}  // namespace hydrascope::kernels::linear
#endif  // HWY_ONCE
