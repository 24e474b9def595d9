#include "tests/stand_in/torch_device.h"

#include "model/device.h"
#include "tests/stand_in/stand_in.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace stand_in {
namespace {

/// The handles of LibTorch's streams; number 0 is the default one's.
std::vector<cudaStream_t>& handles() {
  static std::vector<cudaStream_t> all{nullptr};
  return all;
}
thread_local c10::StreamId current = 0;

struct DeviceGuard final : c10::impl::NoOpDeviceGuardImpl<c10::kCPU> {
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU, -1), id);
  }
  c10::Stream getStream(c10::Device /*device*/) const noexcept override { return stream(current); }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/) const override {
    cudaStream_t handle = nullptr;
    cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking);
    count_object(-1);  // LibTorch keeps its streams
    handles().push_back(handle);
    return stream(static_cast<c10::StreamId>(handles().size()) - 1);
  }
  c10::Stream exchangeStream(c10::Stream next) const noexcept override {
    return stream(std::exchange(current, next.id()));
  }
  void* getStreamNativeHandle(const c10::Stream of) const override {
    return handles()[static_cast<std::size_t>(of.id())];
  }
};

/// Memory of LibTorch's.
struct Memory {
  struct Block {
    std::size_t bytes;
    c10::StreamId stream;
  };
  std::mutex mutex;
  std::map<void*, Block> blocks;
  std::size_t taken = 0;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
};
Memory& all_memory() {
  static auto* const memory = new Memory;  // outlives all tensors
  return *memory;
}

void give_back(void* block) {
  Memory& all = all_memory();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.blocks.find(block);
    all.taken -= found->second.bytes;
    all.blocks.erase(found);
  }
  std::free(block);
}
void end_block(void* block) {
  c10::StreamId stream = 0;
  {
    const std::lock_guard lock(all_memory().mutex);
    stream = all_memory().blocks.at(block).stream;
  }
  if (stream == 0) {
    give_back(block);
  } else {
    release(handles()[static_cast<std::size_t>(stream)], [block] { give_back(block); });
  }
}

struct StreamOrderedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    Memory& all = all_memory();
    const std::lock_guard lock(all.mutex);
    if (all.taken + bytes > all.limit)
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the stand-in's memory is out");
    all.taken += bytes;
    // As aligned as LibTorch's own is, and no longer than asked for.
    void* block = nullptr;
    if (posix_memalign(&block, 64, std::max<std::size_t>(bytes, 1)) != 0) std::abort();
    std::memset(block, 0xff, bytes);
    all.blocks[block] = {bytes, current};
    return {block, block, end_block, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return end_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

void record_stream(at::Tensor& /*tensor*/, c10::Stream /*stream*/) {}

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("record_stream", record_stream); }

class Environment final : public ::testing::Environment {
  void SetUp() override {
    using namespace hydrascope::model;
    seed_generators(1);
    const at::Tensor first = at::randn({4});
    seed_generators(1);
    EXPECT_TRUE(at::equal(at::randn({4}), first)) << "the processor's generator is seeded";
    EXPECT_TRUE(resolve_device("cpu").is_cpu());
    // One of the operators that ask LibTorch for CUDA, which keeps the first answer.
    at::conv2d(at::randn({1, 3, 8, 8}), at::randn({4, 3, 2, 2}));
    EXPECT_EQ(cuda_unavailable_reason(), "");

    c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::kCPU)] = new DeviceGuard;
    c10::SetCPUAllocator(new StreamOrderedAllocator, 100);
    at::addGlobalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
          if (current != 0) catch_up(handles()[static_cast<std::size_t>(current)]);
          return nullptr;
        }));
  }
};
[[maybe_unused]] const auto* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new Environment);

}  // namespace

MemoryLimit::MemoryLimit(std::size_t bytes) { all_memory().limit = all_memory().taken + bytes; }
MemoryLimit::~MemoryLimit() { all_memory().limit = std::numeric_limits<std::size_t>::max(); }

}  // namespace stand_in
