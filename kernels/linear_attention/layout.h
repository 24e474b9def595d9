// The layout of linear attention's memory: features fill whole vectors of every instruction set.
#pragma once

#include "kernels/linear/panel.h"
#include "kernels/linear_attention/linear_attention.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention {

/// Lanes of the longest vector.
inline constexpr std::int64_t kPadding = 16;
constexpr std::int64_t padded(std::int64_t count) {
  return (count + kPadding - 1) / kPadding * kPadding;
}

/// Tokens whose key features exist at a time: 128 of 128 features are 32 KB in bfloat16, so that
/// reading and writing S between them costs a tenth of the product.
inline constexpr std::int64_t kKeyRows = 128;
/// Tokens whose query features exist at a time: a multiple of the micro-kernel's six rows; with a
/// panel of S they stay in L1.
inline constexpr std::int64_t kQueryRows = 48;

/// Maps of u and -u give their features in two parts of w.
constexpr std::int64_t parts_of(Feature feature) { return feature >= Feature::exp_pair ? 2 : 1; }

/// Key features: [token][part][padded w], in bfloat16 two tokens to a word.
constexpr std::int64_t key_step(const Shape& shape) {
  return parts_of(shape.rule.feature) * padded(shape.width);
}

/// Query features and the state come in two halves of the F features, so that bfloat16 words join
/// feature f with feature half + f and no vector has to be shuffled.
struct Halves {
  std::int64_t half;    ///< features 0 .. half, then half .. F (one less if F is odd)
  std::int64_t stride;  ///< half, padded
  explicit constexpr Halves(const Shape& shape)
      : half((shape.features() + 1) / 2), stride(padded(half)) {}
};

constexpr std::int64_t panels_of(const Shape& shape) { return linear::panels_of(shape.head_dim); }

/// The state of one head: panels of S, then z and M as two padded halves each.
template <class T>
struct HeadState {
  std::int64_t panel;   ///< elements of T from one panel to the next
  std::size_t z;        ///< bytes from the head's begin
  std::size_t maximum;  ///< bytes from the head's begin
  std::size_t bytes;
  explicit constexpr HeadState(const Shape& shape) {
    const std::int64_t stride = Halves(shape).stride;
    panel = linear::panel_size<T>(2 * stride);
    z = static_cast<std::size_t>(panels_of(shape) * panel) * sizeof(T);
    const std::size_t floats = static_cast<std::size_t>(2 * stride) * sizeof(float);
    maximum = z + floats;
    bytes = maximum + floats;
  }
};

template <class Float>
constexpr Sums<Float> from_head(const Shape& shape, const Sums<Float>& all, std::int64_t head) {
  const std::int64_t features = shape.features();
  return {all.s + head * features * shape.head_dim, all.z + head * features,
          all.maximum + head * features};
}
/// Pointers to the sums of one head and tile.
template <class Float>
constexpr Sums<Float> sums_of_head(const Shape& shape, Float* sums, std::int64_t head) {
  const std::int64_t features = shape.num_heads * shape.features();
  Float* z = sums + features * shape.head_dim;
  return from_head(shape, Sums<Float>{sums, z, z + features}, head);
}

/// Tokens of a feature, where they lie side by side: whole steps of AMX.
constexpr std::int64_t tokens_stride(std::int64_t rows) { return (rows + 31) / 32 * 32; }

/// The scratch of `accumulate`, as bytes from its begin.
template <class T>
struct KeyScratch {
  std::int64_t rows;       ///< rows of a chunk: even, so that tokens come in pairs
  std::size_t panel;       ///< after the features: v as a panel
  std::size_t columns;     ///< products of columns that fill no panel: (F, 64)
  std::size_t factors;     ///< factors of S's rows
  std::size_t of_token;    ///< two values each
  std::size_t by_feature;  ///< bfloat16: the features again, [part][w][tokens_stride]
  std::size_t bytes;
  constexpr KeyScratch(const Shape& shape, std::int64_t tile_rows) {
    const std::int64_t chunks = (tile_rows + kKeyRows - 1) / kKeyRows;
    rows = chunks == 0 ? 0 : (tile_rows + 2 * chunks - 1) / (2 * chunks) * 2;
    const auto step = static_cast<std::size_t>(key_step(shape));
    panel = static_cast<std::size_t>(rows) * step * sizeof(T);
    columns = panel + static_cast<std::size_t>(linear::panel_size<T>(rows)) * sizeof(T);
    const std::size_t remainder =
        shape.head_dim % linear::kPanelColumns == 0
            ? 0
            : static_cast<std::size_t>(padded(shape.features()) * linear::kPanelColumns);
    factors = columns + remainder * sizeof(float);
    of_token = factors + step * sizeof(float);
    by_feature = of_token + static_cast<std::size_t>(2 * padded(rows)) * sizeof(float);
    bytes = by_feature;
    if (sizeof(T) == 2)
      bytes += static_cast<std::size_t>(shape.features() * tokens_stride(rows)) * sizeof(T);
  }
};

/// The scratch of `read_out`: features, then three values per row.
template <class T>
struct QueryScratch {
  std::size_t of_token;
  std::size_t bytes;
  explicit constexpr QueryScratch(const Shape& shape) {
    of_token = static_cast<std::size_t>(kQueryRows * 2 * Halves(shape).stride) * sizeof(T);
    bytes = of_token + static_cast<std::size_t>(3 * kQueryRows) * sizeof(float);
  }
};

}  // namespace hydrascope::kernels::linear_attention
