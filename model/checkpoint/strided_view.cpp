#include "model/checkpoint/strided_view.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();

/// a * b + c without overflow of 63 bits.
std::optional<std::uint64_t> multiply_add(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  if (c > kMax || (b != 0 && a > (kMax - c) / b)) return std::nullopt;
  return a * b + c;
}

bool is_empty(const StridedView& view) { return std::ranges::count(view.shape, 0) > 0; }

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
  // The innermost dimensions that lie one behind the other are copied at once.
  std::size_t outer = view.shape.size();
  std::int64_t run = 1;
  while (outer > 0 && (view.shape[outer - 1] == 1 || view.strides[outer - 1] == run)) {
    run *= view.shape[--outer];
  }
  const std::size_t size = size_of(view.dtype);
  const std::size_t run_bytes = static_cast<std::size_t>(run) * size;

  std::vector<std::int64_t> position(outer, 0);
  std::int64_t at = view.offset;
  for (std::size_t written = 0; written < target.size(); written += run_bytes) {
    std::memcpy(target.data() + written, storage.data() + static_cast<std::size_t>(at) * size,
                run_bytes);
    for (std::size_t i = outer; i-- > 0;) {
      if (view.shape[i] == 1) continue;  // its stride may be anything
      at += view.strides[i];
      if (++position[i] < view.shape[i]) break;
      at -= view.strides[i] * view.shape[i];
      position[i] = 0;
    }
  }
}

}  // namespace hydrascope::checkpoint
