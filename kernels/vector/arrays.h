// Working memory as several arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels {

/// Cuts memory into arrays that begin at multiples of 64 bytes. Without memory it only counts.
class Arrays {
 public:
  explicit Arrays(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  template <class U>
  U* take(std::int64_t count) {
    U* const at = memory_ == nullptr ? nullptr : reinterpret_cast<U*>(memory_ + bytes_);
    bytes_ += (static_cast<std::size_t>(count) * sizeof(U) + 63) / 64 * 64;
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace hydrascope::kernels
