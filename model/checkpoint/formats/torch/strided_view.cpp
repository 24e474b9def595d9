#include "model/checkpoint/formats/torch/strided_view.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max();

/// a * b + c without overflow of 63 bits.
std::optional<std::uint64_t> multiply_add(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  if (c > kMaxElements || (b != 0 && a > (kMaxElements - c) / b)) return std::nullopt;
  return a * b + c;
}

bool is_empty(const StridedView& view) { return std::ranges::count(view.shape, 0) > 0; }

std::size_t bytes_of(std::int64_t elements, std::size_t size) {
  return static_cast<std::size_t>(elements) * size;
}

/// `count` runs of `run` bytes each, `stride` bytes apart at the source.
struct Row {
  std::byte* target;
  const std::byte* source;
  std::size_t count;
  std::size_t stride;
  std::size_t run;
};

template <std::size_t kRun>
void copy_runs(const Row& row) {
  for (std::size_t i = 0; i < row.count; ++i) {
    std::memcpy(row.target + i * kRun, row.source + i * row.stride, kRun);
  }
}

void copy_row(const Row& row) {
  // Transposed matrices are copied element by element: a copy of constant length is a move.
  switch (row.run) {
    case 1: return copy_runs<1>(row);
    case 2: return copy_runs<2>(row);
    case 4: return copy_runs<4>(row);
    case 8: return copy_runs<8>(row);
    default: break;
  }
  for (std::size_t i = 0; i < row.count; ++i) {
    std::memcpy(row.target + i * row.run, row.source + i * row.stride, row.run);
  }
}

}  // namespace

std::optional<std::uint64_t> reach(const StridedView& view) {
  if (is_empty(view)) return 0;
  std::optional<std::uint64_t> last = static_cast<std::uint64_t>(view.offset);
  for (std::size_t i = 0; i < view.shape.size() && last; ++i) {
    last = multiply_add(static_cast<std::uint64_t>(view.shape[i] - 1),
                        static_cast<std::uint64_t>(view.strides[i]), *last);
  }
  const std::size_t size = size_of(view.dtype);
  return last ? multiply_add(*last, size, size) : std::nullopt;
}

bool is_row_major(const StridedView& view) {
  if (is_empty(view)) return true;
  std::int64_t expected = 1;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 1) continue;  // its stride moves nothing
    if (view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

void copy_row_major(const StridedView& view, std::span<const std::byte> storage,
                    std::span<std::byte> target) {
  if (target.empty()) return;
  // The innermost dimensions that lie one after the other are copied at once, as a run.
  std::size_t outer = view.shape.size();
  std::size_t run = size_of(view.dtype);
  const std::size_t size = run;
  while (outer > 0 &&
         (view.shape[outer - 1] == 1 || bytes_of(view.strides[outer - 1], size) == run)) {
    run *= static_cast<std::size_t>(view.shape[--outer]);
  }
  // The next dimension is a row of runs. A single row may have any stride.
  const std::size_t count = outer > 0 ? static_cast<std::size_t>(view.shape[--outer]) : 1;
  const std::size_t stride = count > 1 ? bytes_of(view.strides[outer], size) : 0;

  std::vector<std::int64_t> position(outer, 0);
  const std::byte* source = storage.data() + bytes_of(view.offset, size);
  for (std::size_t written = 0; written < target.size(); written += count * run) {
    copy_row({.target = target.data() + written,
              .source = source,
              .count = count,
              .stride = stride,
              .run = run});
    for (std::size_t i = outer; i-- > 0;) {
      if (view.shape[i] == 1) continue;
      const std::size_t step = bytes_of(view.strides[i], size);
      if (++position[i] < view.shape[i]) {
        source += step;
        break;
      }
      source -= step * static_cast<std::size_t>(view.shape[i] - 1);
      position[i] = 0;
    }
  }
}

}  // namespace hydrascope::checkpoint
