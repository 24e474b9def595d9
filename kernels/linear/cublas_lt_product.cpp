#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_product.h"

#include <array>

namespace hydrascope::kernels::linear::cuda {
namespace {

constexpr int kMaxAlgorithms = 16;

struct TypeFacts {
  cudaDataType_t stored;
  cublasComputeType_t compute;
  const char* name;
};

TypeFacts facts_of(ProductType type) {
  switch (type) {
    case ProductType::bfloat16: return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, "bfloat16"};
    case ProductType::float16: return {CUDA_R_16F, CUBLAS_COMPUTE_32F, "float16"};
    case ProductType::tf32: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, "tf32"};
    default: return {CUDA_R_32F, CUBLAS_COMPUTE_32F, "float32"};
  }
}

}  // namespace

std::string text_of(const ProductShape& s) {
  return (s.batch > 1 ? std::to_string(s.batch) + " x " : "") + std::to_string(s.rows) + " x " +
         std::to_string(s.in) + " times " + std::to_string(s.in) + " x " + std::to_string(s.out) +
         " " + facts_of(s.type).name;
}

CublasLtProduct::CublasLtProduct(const CublasLtLibrary& library, const ProductShape& shape)
    : library_(library), shape_(shape) {
  const TypeFacts facts = facts_of(shape.type);
  cublasLtMatmulDesc_t raw = nullptr;
  library.check(library.MatmulDescCreate(&raw, facts.compute, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
  operation_ = {raw, [&library](auto* each) { library.MatmulDescDestroy(each); }};
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE,
      shape.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, facts.stored);
  weight_ = layout(shape.in, shape.out, shape.in, 0);
  x_ = layout(shape.in, shape.rows, shape.x_stride, shape.x_batch_stride);
  y_ = layout(shape.out, shape.rows, shape.y_stride, shape.y_batch_stride);
  // Without a c, y takes its place (`run`).
  c_ = shape.add ? layout(shape.out, shape.rows, shape.c_stride, shape.c_batch_stride)
                 : layout(shape.out, shape.rows, shape.y_stride, shape.y_batch_stride);
}

std::vector<cublasLtMatmulAlgo_t> CublasLtProduct::algorithms(cublasLtHandle_t handle) {
  cublasLtMatmulPreference_t raw = nullptr;
  library_.check(library_.MatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference{
      raw, [this](auto* each) { library_.MatmulPreferenceDestroy(each); }};
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    library_.check(library_.MatmulPreferenceSetAttribute(raw, what, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // The sums of a split product are added in a fixed order: never in place.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // The library assumes an alignment of 256 bytes unless it is told.
  const ProductShape s = every_matrix_of(shape_);
  const auto prefer_alignment = [&](cublasLtMatmulPreferenceAttributes_t what,
                                    std::int64_t alignment) {
    prefer(what, static_cast<std::uint32_t>(alignment));
  };
  prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.weight_alignment);
  prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.x_alignment);
  prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   s.add ? s.c_alignment : s.y_alignment);
  prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.y_alignment);
  // The bias has no such preference: the library looks at its pointer. This pointer has the
  // alignment of the later bias and is never read.
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
      static_cast<std::uintptr_t>((std::int64_t{1} << 20) + s.bias_alignment));
  std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> found{};
  int count = 0;
  const cublasStatus_t status =
      library_.MatmulAlgoGetHeuristic(handle, operation_.get(), weight_.get(), x_.get(), c_.get(),
                                      y_.get(), raw, kMaxAlgorithms, found.data(), &count);
  // Both statuses say that there is no algorithm.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> usable;
  for (int i = 0; i < count; ++i) {
    const auto& each = found[static_cast<std::size_t>(i)];
    if (each.state == CUBLAS_STATUS_SUCCESS) usable.push_back(each.algo);
  }
  return usable;
}

cublasStatus_t CublasLtProduct::run(cublasLtHandle_t handle, const void* x, const void* weight,
                                    const void* bias, const void* c, void* y, void* workspace,
                                    device::Stream stream) {
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1;
  const float beta = shape_.add ? 1 : 0;
  return library_.Matmul(handle, operation_.get(), &one, weight, weight_.get(), x, x_.get(), &beta,
                         c != nullptr ? c : y, c_.get(), y, y_.get(), &algorithm_, workspace,
                         kWorkspaceBytes, stream);
}

std::string CublasLtProduct::text() const {
  std::string result = text_of(shape_);
  for (const auto& [what, name] : {std::pair{CUBLASLT_ALGO_CONFIG_ID, ", algorithm "},
                                   {CUBLASLT_ALGO_CONFIG_TILE_ID, ", tile "},
                                   {CUBLASLT_ALGO_CONFIG_STAGES_ID, ", stages "},
                                   {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, ", split "}}) {
    std::int32_t value = 0;
    std::size_t written = 0;
    if (library_.MatmulAlgoConfigGetAttribute(&algorithm_, what, &value, sizeof value, &written) ==
        CUBLAS_STATUS_SUCCESS)
      result += name + std::to_string(value);
  }
  return result;
}

template <class Value>
void CublasLtProduct::set(cublasLtMatmulDescAttributes_t what, Value value) {
  library_.check(library_.MatmulDescSetAttribute(operation_.get(), what, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
}

Owned<cublasLtMatrixLayout_t> CublasLtProduct::layout(std::int64_t rows, std::int64_t columns,
                                                      std::int64_t stride,
                                                      std::int64_t batch_stride) const {
  cublasLtMatrixLayout_t raw = nullptr;
  library_.check(library_.MatrixLayoutCreate(&raw, facts_of(shape_.type).stored,
                                             static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(columns), stride),
                 "cublasLtMatrixLayoutCreate");
  Owned<cublasLtMatrixLayout_t> owned{raw,
                                      [this](auto* each) { library_.MatrixLayoutDestroy(each); }};
  const auto set_attribute = [&](cublasLtMatrixLayoutAttribute_t what, auto value) {
    library_.check(library_.MatrixLayoutSetAttribute(raw, what, &value, sizeof value),
                   "cublasLtMatrixLayoutSetAttribute");
  };
  set_attribute(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(shape_.batch));
  set_attribute(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  return owned;
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
