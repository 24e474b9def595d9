// LibTorch's processor as if it were a GPU, in every test of the program: its streams are CUDA's, each
// of LibTorch's operators waits for the current one, and memory that was taken beside it returns when
// what is on the stream then is done. Before, the program begins as with a model on the processor:
// that leaves the GPU visible.
#pragma once

#include <cstddef>

namespace stand_in {

/// LibTorch's tensors may take that many bytes more at once, while it lives.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes);
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit();
};

}  // namespace stand_in
