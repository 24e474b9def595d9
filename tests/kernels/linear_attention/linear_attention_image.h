// An image's queries, keys and values for the tests of linear attention, mixed tile by tile.
#pragma once

#include "kernels/linear_attention/layout.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace hydrascope::kernels::test {
namespace linear_attention_test {

namespace la = linear_attention;
using la::Feature;
using la::kAllFeatures;
using la::name_of;
using la::shape_of;

/// Memory for a kernel to work in: all NaN, with bytes behind it that must stay.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : bytes_(bytes), memory_(bytes + kMargin) {
    std::memset(memory_.data(), 0xff, bytes + kMargin);
  }
  std::byte* data() { return memory_.data(); }
  [[nodiscard]] bool intact() const {
    return std::all_of(memory_.begin() + bytes_, memory_.end(),
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  static constexpr std::size_t kMargin = 256;
  std::size_t bytes_;
  AlignedBuffer<std::byte> memory_;
};

template <class T>
struct Image {
  la::Shape shape;
  std::int64_t rows;
  StridedRows<T> q, k, v, y;
  TokenWeights weights;
  std::vector<float> combined;  ///< S, z, M of all tiles
  /// Who accumulates and reads out in place of the kernel's own choice.
  std::function<void(const la::AccumulateParams<T>&)> accumulate_by{};
  std::function<void(const la::ReadOutParams<T>&)> read_out_by{};

  Image(const la::Shape& shape_, std::int64_t rows_, Fill how)
      : shape(shape_),
        rows(rows_),
        q(rows_, shape_.num_heads * shape_.width, 5, how, 1),
        k(rows_, shape_.num_heads * shape_.width, 7, how, 2),
        v(rows_, shape_.num_heads * shape_.head_dim, 3, how, 3),
        y(rows_, shape_.num_heads * shape_.head_dim, 9) {}

  /// The three steps with tiles of `tile` tokens.
  void mix(std::int64_t tile) {
    const std::int64_t count = (rows + tile - 1) / tile;
    const std::size_t size = la::sums_size(shape);
    Guarded<float> sums(static_cast<std::size_t>(count) * size);
    Workspace scratch(la::scratch_bytes<T>(shape, tile));
    Workspace state(la::state_bytes<T>(shape));
    for (std::int64_t i = 0; i < count; ++i) {
      float* of_tile = sums.data() + static_cast<std::size_t>(i) * size;
      la::clear(shape, of_tile);
      const std::int64_t first = i * tile;
      accumulate(la::AccumulateParams<T>{shape, k.row(first), k.stride, v.row(first), v.stride,
                                         std::min(tile, rows - first), weights.from(first), of_tile,
                                         scratch.data()});
    }
    Guarded<float> all(size);
    for (std::int64_t head = 0; head < shape.num_heads; ++head)
      la::combine(la::CombineParams<T>{shape, sums.data(), count, head, 1, state.data(),
                                       la::sums_of_head(shape, all.data(), 0)});
    combined.assign(all.begin(), all.end());
    for (std::int64_t first = 0; first < rows; first += tile)
      read_out(la::ReadOutParams<T>{shape, q.row(first), q.stride, std::min(tile, rows - first),
                                    state.data(), y.row(first), y.stride, scratch.data()});
    EXPECT_TRUE(sums.intact() && all.intact() && scratch.intact() && state.intact() && y.intact());
  }

  void accumulate(const la::AccumulateParams<T>& params) const {
    if (accumulate_by) return accumulate_by(params);
    la::accumulate(params);
  }
  void read_out(const la::ReadOutParams<T>& params) const {
    if (read_out_by) return read_out_by(params);
    la::read_out(params);
  }

  /// Compares every `step`th row.
  void compare(std::int64_t step) {
    const la::Tokens<T> tokens{shape,    q.data(), q.stride, rows, k.data(),
                               k.stride, v.data(), v.stride, rows, weights};
    const double bound = relative_bound();
    for (std::int64_t r = 0; r < rows; r += step) {
      const la::Mixed expected = la::linear_attention_reference(tokens, r);
      // Exponents are sums of three terms, each rounded to 2^-24 of itself.
      const double relative = bound + expected.largest_exponent * 4e-7;
      for (std::size_t i = 0; i < expected.y.values.size(); ++i) {
        const double found = y.of(r, static_cast<std::int64_t>(i));
        const double error = std::abs(found - expected.y.values[i]);
        ASSERT_LE(error, relative * expected.y.magnitudes[i] + 1e-30)
            << "row " << r << ", column " << i << ": found " << found << ", expected "
            << expected.y.values[i];
      }
    }
  }

  /// Features of both sides, S and y are rounded once each to half a unit.
  static double relative_bound() { return sizeof(T) == 2 ? 2 * rounding<T>() : 4e-6; }
};

}  // namespace linear_attention_test
}  // namespace hydrascope::kernels::test
