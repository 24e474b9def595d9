// A stand-in for the CUDA runtime and cuBLASLt, so that the host code around them runs without a
// GPU: README.md says what it checks. These are the strings that tests pull.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace stand_in {

/// Puts work on a stream, or into the graph that it is captured into. Work that only writes `result`
/// and is followed by work that writes all of that anew takes its time and is not done.
void put(cudaStream_t stream, std::function<void()> work, double milliseconds = 0.001,
         const void* result = nullptr);
/// Gives memory back when what is on the stream now is done, as LibTorch's allocator does.
void release(cudaStream_t stream, std::function<void()> work);
/// Does what is on the stream, and what that waits for: what LibTorch's operators on the host, which
/// compute at once, would have waited for. In a capture an error, which ends the capture.
void catch_up(cudaStream_t stream);

/// The call of that name after `calls` others fails so, once. "cublasLtMatmul" and its like: the
/// error is a cublasStatus_t.
void fail(const std::string& call, int error, int calls = 0);
/// Calls of that name so far.
int calls(const std::string& call);
/// Streams, events, graphs, descriptors that were made and not ended.
int living();
/// Host memory that copies may read and write at any time later.
void* take_pinned(std::size_t bytes);
void return_pinned(void* memory);

/// As cudaGetDeviceCount and its like show it.
struct Machine {
  int runtime = 13000;
  int driver = 13000;
  int gpus = 1;
  int major = 9;  ///< of their compute capability
};
Machine& machine();

/// How products of cuBLASLt behave, until a test says otherwise.
struct CublasLt {
  struct Algorithm {
    int id;
    double milliseconds;  ///< below 0: refuses when it runs
    int alignment;        ///< bytes that it needs of every operand
    bool runs = true;     ///< else it is offered as one that does not
  };
  /// The library's first choice first.
  std::vector<Algorithm> algorithms = {{21, 3, 16}, {66, 1, 16}, {70, 1.1, 2}, {5, 4, 2}};
  bool repeats_c = true;  ///< takes a c of batch stride 0, which the manual does not promise
};
CublasLt& cublas_lt();

/// The innermost range of NVTX, which names what is launched in it.
const std::string& range();
/// For cuBLASLt's part: the failure that a test wants of this call, or 0; an object more or less.
int wanted_failure(const std::string& call);
void count_object(int change);

/// Back to where all began; what was made lives on.
void reset();

}  // namespace stand_in
