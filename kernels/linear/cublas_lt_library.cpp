#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_library.h"

#include "kernels/error.h"

#include <dlfcn.h>
#include <string>

namespace hydrascope::kernels::linear::cuda {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::failed, std::string("the library has no function ") + name,
                "libcublasLt.so");
}

CublasLtLibrary load() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorCode::failed, reason != nullptr ? reason : "it does not load", name,
                "it belongs to the CUDA toolkit and to LibTorch's CUDA packages");
  }
  CublasLtLibrary functions;
#define HYDRASCOPE_CUBLAS_LT(function) find(library, "cublasLt" #function, functions.function);
  HYDRASCOPE_CUBLAS_LT_FUNCTIONS(HYDRASCOPE_CUBLAS_LT)
#undef HYDRASCOPE_CUBLAS_LT
  return functions;
}

}  // namespace

const CublasLtLibrary& CublasLtLibrary::get() {
  static const CublasLtLibrary library = load();
  return library;
}

void CublasLtLibrary::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::failed,
              std::string("cuBLASLt says: ") + GetStatusString(status), what);
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
