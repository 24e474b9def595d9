// In place of libtorch_cuda.so, by the name under which the program loads that: registers what
// LibTorch asks CUDA for.
#include "tests/stand_in/stand_in.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <cstring>
#include <memory>

namespace {

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = stand_in::take_pinned(bytes);
    return {memory, memory, stand_in::return_pinned, c10::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

/// By this name LibTorch asks for it.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs /*unused*/) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
};

using at::CUDAHooksInterface;
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace
