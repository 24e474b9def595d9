// Tensors that lie in their storage in any order, as PyTorch's views do.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hydrascope::checkpoint {

/// Element (i, j, ...) of the tensor is element offset + i * strides[0] + j * strides[1] + ... of
/// the storage. All numbers are >= 0, there is a stride for every extent, and the tensor's size in
/// bytes fits into 63 bits (`byte_size`).
struct StridedView {
  Dtype dtype = Dtype::F32;
  std::int64_t offset = 0;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
};

/// Bytes from the front of the storage to the end of the last element that the view touches; 0 for
/// a view without elements, nothing when the number overflows 63 bits.
std::optional<std::uint64_t> reach(const StridedView& view);

/// Whether the elements lie one after the other in row-major order.
bool is_row_major(const StridedView& view);

/// Copies all elements in row-major order. `storage` has at least `reach` bytes, `target` exactly
/// the tensor's size.
void copy_row_major(const StridedView& view, std::span<const std::byte> storage,
                    std::span<std::byte> target);

}  // namespace hydrascope::checkpoint
