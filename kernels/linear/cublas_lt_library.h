// The functions of cuBLASLt that this program uses, found at run time.
#pragma once

#include <cublasLt.h>
#include <string>

namespace hydrascope::kernels::linear::cuda {

/// The functions by name; `each` is expanded for every one of them.
#define HYDRASCOPE_CUBLAS_LT_FUNCTIONS(each)                                                      \
  each(Create) each(Destroy) each(GetStatusString) each(Matmul) each(MatmulAlgoGetHeuristic)      \
      each(MatmulAlgoConfigGetAttribute) each(MatmulDescCreate) each(MatmulDescDestroy)           \
          each(MatmulDescSetAttribute) each(MatmulPreferenceCreate) each(MatmulPreferenceDestroy) \
              each(MatmulPreferenceSetAttribute) each(MatrixLayoutCreate)                         \
                  each(MatrixLayoutDestroy) each(MatrixLayoutSetAttribute)

struct CublasLtLibrary {
#define HYDRASCOPE_CUBLAS_LT(function) decltype(&cublasLt##function) function = nullptr;
  HYDRASCOPE_CUBLAS_LT_FUNCTIONS(HYDRASCOPE_CUBLAS_LT)
#undef HYDRASCOPE_CUBLAS_LT

  /// Loads the file. Throws Error(failed) if it cannot be loaded or lacks a function.
  explicit CublasLtLibrary(const std::string& file);
  /// The library of this process, loaded by the first call. Throws as the constructor does.
  static const CublasLtLibrary& get();
  void check(cublasStatus_t status, const char* what) const;
};

}  // namespace hydrascope::kernels::linear::cuda
