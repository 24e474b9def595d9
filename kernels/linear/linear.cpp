#include "kernels/linear/linear.h"

#include "kernels/device/matrix_instructions.h"
#include "kernels/error.h"

#include <type_traits>

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
#include "kernels/vector/pair-inl.h"

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
      T* const y = p.y + row * p.y_stride + column;
      prefetch_strip<kEpilogue>(rows, y, p.y_stride, columns);
      strip(s, rows);
      write_strip<T, kEpilogue>(FloatSums{sums}, rows,
                                p.bias == nullptr ? nullptr : p.bias + column, y, p.y_stride,
                                columns);
    }
  }
}

// k of a panel that are passed by many rows before the next k: 64 KB of a panel that is expanded for
// them, and parts of rows that stay in L1 where rows are long.
constexpr std::int64_t kExpandedDepth = 256;
constexpr std::int64_t kPieceDepth = 768;

/// A panel of bfloat16 as one of float32, `depth` rows of it.
HWY_INLINE void expand_panel(const BFloat16* panel, std::int64_t depth, float* to) {
  for (std::int64_t k = 0; k < depth; k += 2, panel += 2 * linear::kPanelColumns) {
    for (std::size_t c = 0; c < linear::kPanelColumns; c += lanes(), to += lanes()) {
      const Pair pair = load_pair(panel + 2 * c);
      store(pair.first, to);
      store(pair.second, to + linear::kPanelColumns);
    }
    to += linear::kPanelColumns;
  }
}

/// Rows of float32 through pieces of panels, many rows through one: weights in bfloat16 are expanded once
/// for them.
template <linear::Epilogue kEpilogue, bool kNarrow>
void linear_in_pieces(const linear::LinearParams<float>& p) {
  HWY_ALIGN float sums[linear::kBlockRows * linear::kPanelColumns];
  HWY_ALIGN float expanded[kExpandedDepth * linear::kPanelColumns];
  const linear::PackedWeight& weight = *p.weight;
  using Gelu = std::conditional_t<kNarrow, BFloat16, float>;
  constexpr std::int64_t kPiece = kNarrow ? kExpandedDepth : kPieceDepth;
  const std::int64_t block = linear::block_rows(p.rows);
  const std::int64_t end = p.outputs.end_of(weight.out());
  for (std::int64_t column = p.outputs.first; column < end; column += linear::kPanelColumns) {
    const auto columns = static_cast<std::size_t>(linear::panel_columns(column, weight.out()));
    const std::int64_t index = column / linear::kPanelColumns;
    for (std::int64_t first = 0; first < p.rows; first += block) {
      const std::int64_t rows = p.rows - first < block ? p.rows - first : block;
      for (std::int64_t k = 0; k < weight.in(); k += kPiece) {
        const std::int64_t depth = weight.in() - k < kPiece ? weight.in() - k : kPiece;
        const std::int64_t at = k * linear::kPanelColumns;
        if (kNarrow) expand_panel(weight.panel<BFloat16>(index) + at, depth, expanded);
        linear::Strip<float> s{p.x + first * p.x_stride + k,
                               p.x_stride,
                               1,
                               depth,
                               kNarrow ? expanded : weight.panel<float>(index) + at,
                               sums,
                               linear::kPanelColumns,
                               k > 0};
        for (std::int64_t row = 0; row < rows; row += kStripRows, s.a += kStripRows * p.x_stride) {
          const int strip_rows =
              static_cast<int>(rows - row < kStripRows ? rows - row : kStripRows);
          if (weight.in() > kPiece) s.c = sums + row * linear::kPanelColumns;
          strip(s, strip_rows);
          if (k + depth < weight.in()) continue;
          write_strip<float, kEpilogue, Gelu>(
              FloatSums{s.c}, strip_rows, p.bias == nullptr ? nullptr : p.bias + column,
              p.y + (first + row) * p.y_stride + column, p.y_stride, columns);
        }
      }
    }
  }
}

template <class T, linear::Epilogue kEpilogue>
void linear_by_vectors(const linear::LinearParams<T>& p) {
  if constexpr (sizeof(T) == 4) {
    if (p.weight->storage() == Storage::bfloat16) return linear_in_pieces<kEpilogue, true>(p);
    if (p.weight->in() > kPieceDepth) return linear_in_pieces<kEpilogue, false>(p);
  }
  linear_with<T, kEpilogue>(p);
}

template <class T>
void linear_of(const linear::LinearParams<T>& p) {
  switch (p.epilogue) {
    case linear::Epilogue::store: return linear_by_vectors<T, linear::Epilogue::store>(p);
    case linear::Epilogue::gelu: return linear_by_vectors<T, linear::Epilogue::gelu>(p);
    case linear::Epilogue::add: return linear_by_vectors<T, linear::Epilogue::add>(p);
  }
}

void linear_float32(const linear::LinearParams<float>& p) { linear_of(p); }
void linear_bfloat16(const linear::LinearParams<BFloat16>& p) { linear_of(p); }
void linear_tiles([[maybe_unused]] const linear::LinearParams<BFloat16>& p) {
#if HYDRASCOPE_HAS_AVX512  // every processor that has AMX has it
  amx::AmxTiles tiles;
  tiled_linear(tiles, p);
#else
  HWY_ABORT("a weight of tiles was packed for another target");
#endif
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::linear {

PackedWeight::PackedWeight(Storage storage, const float* weight, std::int64_t out, std::int64_t in,
                           std::int64_t row_stride, Form form, device::ThreadTeam* team)
    : storage_(storage), in_(in), out_(out) {
  const bool narrow = storage == Storage::bfloat16;
  const std::int64_t steps = in / amx::kBfloat16StepDepth;
  const bool reads_tiles = device::may_use(device::MatrixInstruction::amx_bf16);
  if (form == Form::tiles && !reads_tiles)
    throw Error(ErrorCode::internal, "a weight of tiles, which this process cannot multiply by");
  if (narrow && steps > 0 && form != Form::panels && reads_tiles) form_ = Form::tiles;
  const std::int64_t size =
      narrow ? 2 * panel_size<BFloat16>(in) : std::int64_t{4} * panel_size<float>(in);
  const std::int64_t panels = panels_of(out);
  panels_ = AlignedBuffer<std::byte>(static_cast<std::size_t>(panels * size));
  device::for_each_of(team, panels, [&](std::int64_t panel) {
    if (!narrow) return fill<float>(panel, weight, row_stride);
    fill<BFloat16>(panel, weight, row_stride);
    if (form_ == Form::tiles) amx::order_as_tiles(panels_.data() + panel * size, steps);
  });
}

template <class T>
void PackedWeight::fill(std::int64_t panel, const float* weight, std::int64_t row_stride) {
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return T(weight[column * row_stride + row]);
  };
  const std::int64_t size = panel_size<T>(in_);
  fill_panel<sizeof(T) == 2 ? 2 : 1>(panel * kPanelColumns, size / kPanelColumns, in_, out_, at,
                                     reinterpret_cast<T*>(panels_.data()) + panel * size);
}

HWY_EXPORT(linear_float32);
HWY_EXPORT(linear_bfloat16);
HWY_EXPORT(linear_tiles);

void linear(const LinearParams<float>& p) {
  if (p.weight->form() == Form::tiles)
    throw Error(ErrorCode::internal, "rows of float32 and a weight of tiles");
  HWY_DYNAMIC_DISPATCH(linear_float32)(p);
}
void linear(const LinearParams<BFloat16>& p) {
  if (p.weight->form() == Form::tiles) return HWY_DYNAMIC_DISPATCH(linear_tiles)(p);
  HWY_DYNAMIC_DISPATCH(linear_bfloat16)(p);
}

}  // namespace hydrascope::kernels::linear
#endif  // HWY_ONCE
