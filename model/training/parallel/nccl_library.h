// NCCL's C interface, as far as it is used here. libtorch_cuda.so brings the library along; it is
// looked up at run time because no build, and no run on the CPU, shall need CUDA.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html (stable within version 2)
#pragma once

#include <array>
#include <cstddef>

namespace hydrascope::model::training {

struct NcclUniqueId {
  std::array<char, 128> bytes;
};
using NcclComm = void*;
using NcclStream = void*;  ///< cudaStream_t
using NcclResult = int;

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclInProgress = 7;
inline constexpr int kNcclSum = 0;

/// Values of ncclDataType_t.
enum class NcclType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

struct NcclLibrary {
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*comm_init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank) = nullptr;
  NcclResult (*comm_destroy)(NcclComm comm) = nullptr;
  NcclResult (*comm_abort)(NcclComm comm) = nullptr;
  NcclResult (*comm_async_error)(NcclComm comm, NcclResult* error) = nullptr;
  NcclResult (*all_reduce)(const void* send, void* receive, std::size_t count, NcclType type,
                           int operation, NcclComm comm, NcclStream stream) = nullptr;
  NcclResult (*broadcast)(const void* send, void* receive, std::size_t count, NcclType type,
                          int root, NcclComm comm, NcclStream stream) = nullptr;
  const char* (*error_string)(NcclResult result) = nullptr;
};

/// Loaded once. Throws Error(failed) where it cannot be.
const NcclLibrary& nccl_library();

}  // namespace hydrascope::model::training
