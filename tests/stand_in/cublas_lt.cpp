// cuBLASLt by plain loops over its column-major layouts. Refuses what the manual does not allow.
#include "kernels/vector/scalar_types.h"
#include "tests/stand_in/stand_in.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <cublasLt.h>
#include <map>
#include <numbers>

namespace {

using hydrascope::kernels::BFloat16;
using hydrascope::kernels::Float16;

/// The attributes of a descriptor, by their numbers; what its maker was told.
struct Descriptor {
  std::map<int, std::uint64_t> values;
  int type = 0;
  std::int64_t rows = 0, columns = 0, stride = 0;

  [[nodiscard]] std::uint64_t get(int what, std::uint64_t otherwise = 0) const {
    const auto found = values.find(what);
    return found == values.end() ? otherwise : found->second;
  }
};

template <class Handle>
const Descriptor& descriptor(Handle handle) {
  return *reinterpret_cast<const Descriptor*>(handle);
}
template <class Handle>
cublasStatus_t create(Handle* handle, Descriptor value) {
  stand_in::count_object(1);
  *handle = reinterpret_cast<Handle>(new Descriptor(std::move(value)));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  stand_in::count_object(-1);
  delete reinterpret_cast<Descriptor*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
/// Sizes are those that cublasLt.h gives beside each attribute, and no others.
template <class Handle>
cublasStatus_t set(Handle handle, int what, const void* value, std::size_t bytes,
                   std::size_t wanted) {
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, bytes);
  reinterpret_cast<Descriptor*>(handle)->values[what] = bits;
  return CUBLAS_STATUS_SUCCESS;
}

#define CUBLAS_LT_CALL()                                                    \
  if (const int wanted_ = stand_in::wanted_failure(__func__); wanted_ != 0) \
  return static_cast<cublasStatus_t>(wanted_)

struct Matrix {
  explicit Matrix(const Descriptor& layout, const void* memory = nullptr)
      : first(static_cast<const std::byte*>(memory)),
        type(layout.type),
        rows(layout.rows),
        columns(layout.columns),
        stride(layout.stride),
        batch(static_cast<std::int64_t>(layout.get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1))),
        batch_stride(
            static_cast<std::int64_t>(layout.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET))) {}

  [[nodiscard]] std::int64_t size() const { return type == CUDA_R_32F ? 4 : 2; }
  [[nodiscard]] const std::byte* at(std::int64_t image, std::int64_t row,
                                    std::int64_t column) const {
    return first + (image * batch_stride + column * stride + row) * size();
  }
  [[nodiscard]] float get(std::int64_t image, std::int64_t row, std::int64_t column) const {
    const std::byte* from = at(image, row, column);
    if (type == CUDA_R_16BF) return static_cast<float>(*reinterpret_cast<const BFloat16*>(from));
    if (type == CUDA_R_16F) return static_cast<float>(*reinterpret_cast<const Float16*>(from));
    return *reinterpret_cast<const float*>(from);
  }
  void put(std::int64_t image, std::int64_t row, std::int64_t column, float value) const {
    auto* to = const_cast<std::byte*>(at(image, row, column));
    if (type == CUDA_R_16BF) {
      *reinterpret_cast<BFloat16*>(to) = BFloat16(value);
    } else if (type == CUDA_R_16F) {
      *reinterpret_cast<Float16*>(to) = Float16(value);
    } else {
      *reinterpret_cast<float*>(to) = value;
    }
  }
  /// The numbers of an image, column after column.
  [[nodiscard]] std::vector<float> values(std::int64_t image) const {
    std::vector<float> all(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows * columns; ++i)
      all[static_cast<std::size_t>(i)] = get(image, i % rows, i / rows);
    return all;
  }
  /// Whether every column of every image begins at a multiple of `bytes`.
  [[nodiscard]] bool is_aligned(int bytes) const {
    const auto whole = [&](std::int64_t offset) { return offset * size() % bytes == 0; };
    return reinterpret_cast<std::uintptr_t>(first) % static_cast<unsigned>(bytes) == 0 &&
           whole(stride) && (batch == 1 || whole(batch_stride));
  }

  const std::byte* first;
  int type;
  std::int64_t rows, columns, stride, batch, batch_stride;
};

/// It serves our own copies: the sanitizers have nothing to see here, and would take most of the time.
__attribute__((no_sanitize("address", "undefined"), optimize("O3"))) double dot(
    const float* x, const float* y, std::int64_t count) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
  double sum = 0;
  for (const double each : sums) sum += each;
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

/// D = epilogue(A^T B + beta C).
struct Matmul {
  Matrix a, b, c, d;
  int epilogue;
  const void* bias;
  float beta;

  /// Whether some algorithm serves the request.
  [[nodiscard]] bool is_possible() const {
    for (const Matrix* each : {&a, &b, &c, &d})
      if (each->type != d.type || each->batch != d.batch || each->stride < each->rows) return false;
    if (a.rows != b.rows || a.columns != d.rows || b.columns != d.columns) return false;
    if (c.rows != d.rows || c.columns != d.columns) return false;
    if (epilogue == CUBLASLT_EPILOGUE_GELU_BIAS && (beta != 0 || d.type == CUDA_R_32F))
      return false;
    return (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) &&
           (d.batch == 1 || beta == 0 || c.batch_stride != 0 || stand_in::cublas_lt().repeats_c);
  }

  void run() const {
    Matrix biases = c;
    biases.first = static_cast<const std::byte*>(bias);
    std::vector<float> weights;
    for (std::int64_t image = 0; image < d.batch; ++image) {
      if (image == 0 || a.batch_stride != 0) weights = a.values(image);
      const std::vector<float> input = b.values(image);
      for (std::int64_t column = 0; column < d.columns; ++column) {
        for (std::int64_t row = 0; row < d.rows; ++row) {
          double sum = biases.get(0, row, 0) +
                       dot(weights.data() + row * a.rows, input.data() + column * b.rows, a.rows);
          if (epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
            sum *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                                        (sum + 0.044715 * sum * sum * sum)));
          if (beta != 0) sum += static_cast<double>(beta) * c.get(image, row, column);
          d.put(image, row, column, static_cast<float>(sum));
        }
      }
    }
  }
};

/// The place of an algorithm's number in it.
int number_of(const cublasLtMatmulAlgo_t& algorithm) { return static_cast<int>(algorithm.data[0]); }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  CUBLAS_LT_CALL();
  return create(handle, {});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "CUBLAS_STATUS_ALLOC_FAILED" : "another status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t /*scale*/) {
  CUBLAS_LT_CALL();
  Descriptor value;
  value.type = compute;
  return create(description, value);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void* value, size_t bytes) {
  CUBLAS_LT_CALL();
  return set(description, what, value, bytes, what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  CUBLAS_LT_CALL();
  return create(preference, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* value, size_t bytes) {
  CUBLAS_LT_CALL();
  return set(preference, what, value, bytes,
             what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  CUBLAS_LT_CALL();
  Descriptor value;
  value.type = type;
  value.rows = static_cast<std::int64_t>(rows);
  value.columns = static_cast<std::int64_t>(columns);
  value.stride = stride;
  return create(layout, value);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, size_t bytes) {
  CUBLAS_LT_CALL();
  return set(layout, what, value, bytes,
             what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? 8 : 4);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  CUBLAS_LT_CALL();
  *count = 0;
  const Descriptor& operation = descriptor(description);
  if (operation.get(CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_T ||
      operation.get(CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N ||
      static_cast<int>(operation.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)) != descriptor(c).type)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t alignment = operation.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  alignment &= ~alignment + 1;
  for (const int what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    alignment = std::min(alignment, descriptor(preference).get(what, 256));
  // The matrix that is added is known when it runs; gaps between rows count, too.
  const Matmul product{Matrix(descriptor(a)),
                       Matrix(descriptor(b)),
                       Matrix(descriptor(c)),
                       Matrix(descriptor(d)),
                       static_cast<int>(operation.get(CUBLASLT_MATMUL_DESC_EPILOGUE)),
                       nullptr,
                       0};
  if (!product.is_possible()) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const auto& each : stand_in::cublas_lt().algorithms) {
    const bool is_aligned =
        alignment >= static_cast<std::uint64_t>(each.alignment) &&
        std::ranges::all_of(
            std::initializer_list<const Matrix*>{&product.a, &product.b, &product.c, &product.d},
            [&](const Matrix* matrix) { return matrix->is_aligned(each.alignment); });
    if (*count == wanted || !is_aligned) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo.data[0] = static_cast<std::uint64_t>(each.id);
    result.state = each.runs ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t what,
                                                    void* value, size_t bytes, size_t* written) {
  if (what != CUBLASLT_ALGO_CONFIG_ID || bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
  *written = bytes;
  const std::int32_t number = number_of(*algorithm);
  std::memcpy(value, &number, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                              const void* /*alpha*/, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  CUBLAS_LT_CALL();
  const Descriptor& operation = descriptor(description);
  const std::uint64_t bias = operation.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  const Matmul product{Matrix(descriptor(a_layout), a),
                       Matrix(descriptor(b_layout), b),
                       Matrix(descriptor(c_layout), c),
                       Matrix(descriptor(d_layout), d),
                       static_cast<int>(operation.get(CUBLASLT_MATMUL_DESC_EPILOGUE)),
                       reinterpret_cast<const void*>(bias),
                       *static_cast<const float*>(beta)};
  const auto& known = stand_in::cublas_lt().algorithms;
  const auto chosen =
      std::ranges::find(known, number_of(*algorithm), &stand_in::CublasLt::Algorithm::id);
  if (chosen == known.end() || !product.is_possible()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (chosen->milliseconds < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Matrix* each : {&product.a, &product.b, &product.c, &product.d})
    if (!each->is_aligned(chosen->alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  if (bias == 0 || bias % static_cast<unsigned>(chosen->alignment) != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  stand_in::put(
      stream,
      [product, workspace, workspace_bytes] {
        static_cast<char*>(workspace)[0] = 1;  // sums of a split product
        static_cast<char*>(workspace)[workspace_bytes - 1] = 1;
        product.run();
      },
      chosen->milliseconds, product.beta == 0 || c != d ? d : nullptr);
  return CUBLAS_STATUS_SUCCESS;
}
}
