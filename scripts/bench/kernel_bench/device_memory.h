// Memory of the current GPU for measurements: random numbers in, and whether what came out is
// finite.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hydrascope::bench {

/// `bytes` on the current device, undefined at first; 256-byte aligned.
std::shared_ptr<void> device_memory(std::size_t bytes);

/// `count` elements of T; copies share them.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t count)
      : memory_(device_memory(count * sizeof(T))), count_(count) {}

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_ = 0;
};

/// Normally distributed (uint8: uniform) numbers: zeros would run faster. They repeat after about a
/// million elements, at no distance that a row or a cache divides; another seed starts elsewhere.
template <class T>
DeviceMemory<T> random_memory(std::size_t count, unsigned seed);

template <class T>
DeviceMemory<T> zeroed_memory(std::size_t count);

/// Whether no element is NaN or infinite; waits for the device.
template <class T>
bool is_finite(const DeviceMemory<T>& memory);

}  // namespace hydrascope::bench
