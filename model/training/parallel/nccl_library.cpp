#include "model/training/parallel/nccl_library.h"

#include "kernels/error.h"

#include <dlfcn.h>
#include <string>

namespace hydrascope::model::training {
namespace {

constexpr const char* kFile = "libnccl.so.2";

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::failed, std::string("has no function ") + name, kFile);
}

NcclLibrary load() {
  // First the one that LibTorch itself runs with.
  void* library = dlopen(kFile, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(kFile, RTLD_NOW);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorCode::failed,
                std::string("NCCL does not load: ") + (reason != nullptr ? reason : "unknown"),
                kFile, "several processes on GPUs need it; `device` cpu does not");
  }
  NcclLibrary result;
  look_up(library, "ncclGetUniqueId", result.get_unique_id);
  look_up(library, "ncclCommInitRank", result.comm_init_rank);
  look_up(library, "ncclCommDestroy", result.comm_destroy);
  look_up(library, "ncclCommAbort", result.comm_abort);
  look_up(library, "ncclCommGetAsyncError", result.comm_async_error);
  look_up(library, "ncclAllReduce", result.all_reduce);
  look_up(library, "ncclBroadcast", result.broadcast);
  look_up(library, "ncclGetErrorString", result.error_string);
  return result;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace hydrascope::model::training
