#include "kernels/local_convolution/local_convolution.h"

#include "kernels/vector/dispatch.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/local_convolution/local_convolution.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector/pair-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Neighbours in a row of the grid that share the weights' loads: with two vectors each their sums
/// take 8 registers.
constexpr int kNeighbours = 4;

/// A step of a row, or its end with zeros behind.
template <bool kWhole, class T>
HWY_INLINE Pair load_step(const T* p, std::size_t remainder) {
  if constexpr (kWhole) return load_pair(p);
  return load_pair(PairTail<T>(p, remainder).values);
}

/// Features f .. f + step of kPatches neighbours, the first at (row, column). All of them see the
/// displacements left .. right of a row.
template <int kPatches, bool kWhole, class T>
HWY_INLINE void add_step(const local_convolution::AddParams<T>& p, std::int64_t row,
                         std::int64_t column, std::int64_t left, std::int64_t right, std::size_t f,
                         T* y) {
  const local_convolution::Shape& shape = p.shape;
  const std::int64_t reach = shape.size / 2;
  const std::size_t remainder = static_cast<std::size_t>(shape.dim) - f;
  Pair sums[kPatches];
  for (int i = 0; i < kPatches; ++i) sums[i] = load_step<kWhole>(y + i * p.y_stride + f, remainder);
  const std::int64_t top = std::max(-reach, -row);
  const std::int64_t bottom = std::min(reach, shape.rows - 1 - row);
  for (std::int64_t dy = top; dy <= bottom; ++dy) {
    const float* w = p.weight + ((dy + reach) * shape.size + reach + left) * shape.dim + f;
    const T* v = p.v + ((row + dy) * shape.columns + column + left) * p.v_stride + f;
    for (std::int64_t dx = left; dx <= right; ++dx, w += shape.dim, v += p.v_stride) {
      const Pair weight =
          kWhole ? load_pair_as<T>(w) : load_pair_as<T>(PairTail<float>(w, remainder).values);
      for (int i = 0; i < kPatches; ++i) {
        const Pair value = load_step<kWhole>(v + i * p.v_stride, remainder);
        sums[i].first = hn::MulAdd(weight.first, value.first, sums[i].first);
        sums[i].second = hn::MulAdd(weight.second, value.second, sums[i].second);
      }
    }
  }
  for (int i = 0; i < kPatches; ++i) {
    T* to = y + i * p.y_stride + f;
    if constexpr (kWhole) {
      store_pair(sums[i], to);
    } else {
      PairTail<T> tail(to, remainder);
      store_pair(sums[i], tail.values);
      tail.give(to, remainder);
    }
  }
}

template <int kPatches, class T>
HWY_INLINE void add_patches(const local_convolution::AddParams<T>& p, std::int64_t row,
                            std::int64_t column, std::int64_t left, std::int64_t right, T* y) {
  const std::size_t step = 2 * lanes();
  const auto dim = static_cast<std::size_t>(p.shape.dim);
  std::size_t f = 0;
  for (; f + step <= dim; f += step) add_step<kPatches, true>(p, row, column, left, right, f, y);
  if (f < dim) add_step<kPatches, false>(p, row, column, left, right, f, y);
}

template <class T>
void add_with(const local_convolution::AddParams<T>& p) {
  const std::int64_t columns = p.shape.columns;
  const std::int64_t reach = p.shape.size / 2;
  for (std::int64_t i = 0; i < p.count;) {
    const std::int64_t row = (p.first + i) / columns;
    const std::int64_t column = (p.first + i) % columns;
    T* y = p.y + i * p.y_stride;
    // Four at once where none of them is near the left or right border.
    if (column >= reach && column + kNeighbours + reach <= columns && i + kNeighbours <= p.count) {
      add_patches<kNeighbours>(p, row, column, -reach, reach, y);
      i += kNeighbours;
    } else {
      add_patches<1>(p, row, column, std::max(-reach, -column),
                     std::min(reach, columns - 1 - column), y);
      ++i;
    }
  }
}

HYDRASCOPE_STORED_KERNELS(local_convolution, add_with, local_convolution::AddParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::local_convolution {

HYDRASCOPE_DISPATCH(add, local_convolution, AddParams)

}  // namespace hydrascope::kernels::local_convolution
#endif  // HWY_ONCE
