// The tools by which a test of a CUDA kernel is the same on a GPU and under the emulator
// (tests/emulator): arrays that the kernel can reach, and the schedules to run it under. Emulated,
// unless the build has CUDA and does not define HYDRASCOPE_EMULATED.
#pragma once

#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(HYDRASCOPE_WITH_CUDA) && !defined(HYDRASCOPE_EMULATED)
#define HYDRASCOPE_TEST_ON_GPU 1
#include <cuda_runtime_api.h>
#else
#define HYDRASCOPE_TEST_ON_GPU 0
namespace emulator {
void set_schedule(unsigned seed);
}
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#endif

namespace hydrascope::kernels::test {

#if HYDRASCOPE_TEST_ON_GPU
inline void* take_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  device::check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}
inline void return_device_memory(void* memory) { cudaFree(memory); }
inline void copy_memory(void* to, const void* from, std::size_t bytes) {
  // A non-blocking stream's work is not waited for, and what comes from pageable memory may arrive
  // after the call.
  device::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  device::check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  device::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}
inline void forbid(void*, std::size_t) {}
inline void allow(void*, std::size_t) {}
#else
/// Aligned as cudaMalloc's.
inline void* take_device_memory(std::size_t bytes) {
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}
inline void return_device_memory(void* memory) { std::free(memory); }
inline void copy_memory(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#if defined(__SANITIZE_ADDRESS__)
inline void forbid(void* from, std::size_t bytes) { ASAN_POISON_MEMORY_REGION(from, bytes); }
inline void allow(void* from, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(from, bytes); }
#else
inline void forbid(void*, std::size_t) {}
inline void allow(void*, std::size_t) {}
#endif
#endif

/// Elements of T in memory that kernels reach, between margins that they must not touch: all bits
/// of the margins are set, which is NaN in every floating-point type, and ASan reports any access.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::size_t kMargin = 64;

  /// NaN, for a kernel to write.
  explicit DeviceArray(std::size_t count)
      : memory_(take_device_memory((count + 2 * kMargin) * sizeof(T))), count_(count) {
    const std::vector<unsigned char> ones((count + 2 * kMargin) * sizeof(T), 0xff);
    copy_memory(memory_.get(), ones.data(), ones.size());
    forbid(memory_.get(), kMargin * sizeof(T));
    forbid(behind(), kMargin * sizeof(T));
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    if (!values.empty()) copy_memory(data(), values.data(), values.size_bytes());
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}

  T* data() { return static_cast<T*>(memory_.get()) + kMargin; }
  const T* data() const { return static_cast<const T*>(memory_.get()) + kMargin; }
  [[nodiscard]] std::size_t size() const { return count_; }

  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(count_);
    if (count_ != 0) copy_memory(values.data(), data(), count_ * sizeof(T));
    return values;
  }
  /// Whether nothing was written outside.
  [[nodiscard]] bool intact() const {
    return intact(memory_.get()) && intact(const_cast<DeviceArray*>(this)->behind());
  }

 private:
  struct Return {
    void operator()(void* memory) const { return_device_memory(memory); }
  };

  void* behind() { return data() + count_; }
  static bool intact(void* margin) {
    std::vector<unsigned char> bytes(kMargin * sizeof(T));
    allow(margin, bytes.size());
    copy_memory(bytes.data(), margin, bytes.size());
    forbid(margin, bytes.size());
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0xff; });
  }

  std::unique_ptr<void, Return> memory_;
  std::size_t count_;
};

/// Calls body(), which runs kernels and compares: emulated, under several orders of blocks, warps
/// and lanes; on a GPU once, and what is still running then is waited for.
template <class Body>
void for_each_schedule(Body&& body) {
#if HYDRASCOPE_TEST_ON_GPU
  body();
  device::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#else
#if defined(__SANITIZE_THREAD__)  // a race is one under any schedule
  constexpr unsigned kSchedules[] = {0, 100};
#else
  constexpr unsigned kSchedules[] = {0, 1, 2, 100};
#endif
  for (const unsigned schedule : kSchedules) {
    SCOPED_TRACE("schedule " + std::to_string(schedule));
    emulator::set_schedule(schedule);
    body();
    if (::testing::Test::HasFatalFailure()) break;
  }
  emulator::set_schedule(0);
#endif
}

/// Why device code cannot run here; empty where it can.
inline std::string why_no_device() {
#if HYDRASCOPE_TEST_ON_GPU
  return device::gpu_info().why_none;
#else
  return {};
#endif
}

/// Skips the test, with the reason, where device code cannot run. For the first line of a test that
/// has no fixture from DeviceTest.
#define HYDRASCOPE_SKIP_WITHOUT_DEVICE()                                                    \
  if (const std::string why_ = ::hydrascope::kernels::test::why_no_device(); !why_.empty()) \
  GTEST_SKIP() << why_

/// A fixture whose tests are skipped, with the reason, where device code cannot run.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { HYDRASCOPE_SKIP_WITHOUT_DEVICE(); }
};

}  // namespace hydrascope::kernels::test
