// The functions of cuBLASLt that are used, found at run time.
#pragma once

#include <cublasLt.h>

namespace hydrascope::kernels::linear::cuda {

struct CublasLtLibrary {
#define HYDRASCOPE_CUBLAS_LT(function) decltype(&cublasLt##function) function = nullptr
  HYDRASCOPE_CUBLAS_LT(Create);
  HYDRASCOPE_CUBLAS_LT(Destroy);
  HYDRASCOPE_CUBLAS_LT(GetStatusString);
  HYDRASCOPE_CUBLAS_LT(Matmul);
  HYDRASCOPE_CUBLAS_LT(MatmulAlgoGetHeuristic);
  HYDRASCOPE_CUBLAS_LT(MatmulDescCreate);
  HYDRASCOPE_CUBLAS_LT(MatmulDescDestroy);
  HYDRASCOPE_CUBLAS_LT(MatmulDescSetAttribute);
  HYDRASCOPE_CUBLAS_LT(MatmulPreferenceCreate);
  HYDRASCOPE_CUBLAS_LT(MatmulPreferenceDestroy);
  HYDRASCOPE_CUBLAS_LT(MatmulPreferenceSetAttribute);
  HYDRASCOPE_CUBLAS_LT(MatrixLayoutCreate);
  HYDRASCOPE_CUBLAS_LT(MatrixLayoutDestroy);
  HYDRASCOPE_CUBLAS_LT(MatrixLayoutSetAttribute);
#undef HYDRASCOPE_CUBLAS_LT

  /// The library of this process, loaded by the first call; Error(failed) where it cannot be.
  static const CublasLtLibrary& get();
  void check(cublasStatus_t status, const char* what) const;
};

}  // namespace hydrascope::kernels::linear::cuda
