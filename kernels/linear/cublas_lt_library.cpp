#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_library.h"

#include "kernels/error.h"

#include <dlfcn.h>
#include <string>
#include <type_traits>

namespace hydrascope::kernels::linear::cuda {

CublasLtLibrary::CublasLtLibrary(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorCode::failed, reason != nullptr ? reason : "it does not load", file,
                "it belongs to the CUDA toolkit and to LibTorch's CUDA packages");
  }
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr)
      throw Error(ErrorCode::failed, std::string("the library has no function ") + name, file);
  };
#define HYDRASCOPE_CUBLAS_LT(function) find("cublasLt" #function, function);
  HYDRASCOPE_CUBLAS_LT_FUNCTIONS(HYDRASCOPE_CUBLAS_LT)
#undef HYDRASCOPE_CUBLAS_LT
}

const CublasLtLibrary& CublasLtLibrary::get() {
  static const CublasLtLibrary library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  return library;
}

void CublasLtLibrary::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::failed,
              std::string("cuBLASLt says: ") + GetStatusString(status), what);
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
