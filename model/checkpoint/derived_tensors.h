// Tensors that a file holds in another form than the modules: views of its bytes, or small copies of
// them. Numbers are moved and never computed, so that dtypes and bits stay. Free of LibTorch.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace hydrascope::checkpoint {

/// Owns the views that it gives; they live as long as it does, and as the file.
class DerivedTensors {
 public:
  /// The same numbers as `shape`, which must have as many.
  const TensorView* reshaped(const TensorView& of, std::vector<std::int64_t> shape);
  /// `count` rows of the first dimension, from row `first` on.
  const TensorView* rows(const TensorView& of, std::int64_t first, std::int64_t count);
  /// (a, b) -> (b, a).
  const TensorView* transposed(const TensorView& of);
  /// Zeros of `like`'s dtype.
  const TensorView* zeros(const TensorView& like, std::vector<std::int64_t> shape);
  /// A copy of `of` with zeros in `count` rows from row `first` on.
  const TensorView* zeroed(const TensorView& of, std::int64_t first, std::int64_t count);
  /// A table (1, n, D) with `count` rows of zeros in front of row `at`: (1, n + count, D).
  const TensorView* with_rows(const TensorView& table, std::int64_t at, std::int64_t count);

 private:
  const TensorView* add(const TensorView& like, std::vector<std::int64_t> shape,
                        std::vector<std::byte> bytes);

  std::deque<TensorView> views_;
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace hydrascope::checkpoint
