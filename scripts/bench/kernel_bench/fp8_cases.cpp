// A block's products with both factors in FP8 (e4m3), by cuBLASLt: whether they exist with the
// epilogues that a block needs, and how fast they are. Only a probe: no model computes so.
#include "kernels/device/event.h"
#include "kernels/device/fastest_way.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_library.h"
#include "scripts/bench/kernel_bench/device_memory.h"
#include "scripts/bench/kernel_bench/work.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::check_cuda;
using kernels::device::Stream;
using kernels::linear::cuda::CublasLtLibrary;

constexpr std::int64_t kRows = sized(8 * 8161, 48);
constexpr int kMostAlgorithms = 8;
constexpr int kTimedRuns = 5;
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

struct Fp8Product {
  const char* name;
  std::int64_t in, out;
  bool gelu = false;
  bool add = false;           ///< a bfloat16 matrix
  bool narrow = false;        ///< the result is FP8, what the next product reads
  bool scale_of_row = false;  ///< a factor a row of x and a row of the weight; else one for each
};

/// One product and its matrices. Descriptors live as long as the process.
class Fp8Call {
 public:
  Fp8Call(const Fp8Product& product, Stream stream) : product_(product) {
    const auto elements = [](std::int64_t a, std::int64_t b) {
      return static_cast<std::size_t>(a * b);
    };
    x_ = random_memory<E4m3>(elements(kRows, product.in), 1);
    weight_ = random_memory<E4m3>(elements(product.in, product.out), 2);
    bias_ = random_memory<BFloat16>(static_cast<std::size_t>(product.out), 3);
    if (product.add) c_ = random_memory<BFloat16>(elements(kRows, product.out), 4);
    if (product.narrow)
      y8_ = DeviceMemory<E4m3>(elements(kRows, product.out));
    else
      y_ = DeviceMemory<BFloat16>(elements(kRows, product.out));
    scales_ = DeviceMemory<float>(static_cast<std::size_t>(std::max(kRows, product.out)));
    // Results of a magnitude around one.
    const std::vector<float> scale(scales_.size(), 0.04F);
    check_cuda(cudaMemcpy(scales_.data(), scale.data(), scales_.bytes(), cudaMemcpyHostToDevice),
               "cudaMemcpy");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    library_.check(library_.Create(&handle_), "cublasLtCreate");
    describe();
    choose(stream);
  }

  void run(Stream stream) const { library_.check(status_of(stream), "an FP8 product"); }
  [[nodiscard]] bool finite() const { return product_.narrow ? is_finite(y8_) : is_finite(y_); }
  /// Which algorithm runs, and of how many.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  [[nodiscard]] cublasStatus_t status_of(Stream stream) const {
    const float one = 1;
    const float of_c = product_.add ? 1 : 0;
    void* const y = product_.narrow ? static_cast<void*>(y8_.data()) : y_.data();
    // Without an addend c is not read; FP8's y cannot stand in for it.
    const void* const c = product_.add || product_.narrow ? static_cast<const void*>(c_.data()) : y;
    return library_.Matmul(handle_, operation_, &one, weight_.data(), weight_layout_, x_.data(),
                           x_layout_, &of_c, c, c_layout_, y, y_layout_, &algorithm_,
                           workspace_.data(), workspace_.bytes(), stream);
  }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t what, Value value) {
    library_.check(library_.MatmulDescSetAttribute(operation_, what, &value, sizeof value),
                   "an attribute of an FP8 product");
  }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    library_.check(library_.MatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows),
                   "cublasLtMatrixLayoutCreate");
    return made;
  }

  /// Column-major, as cublas_lt_products.cpp says: y^T = W x^T.
  void describe() {
    library_.check(library_.MatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        product_.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_.data());
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales_.data());
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales_.data());
    if (product_.scale_of_row) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    }
    if (product_.narrow) set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scales_.data());
    weight_layout_ = layout(CUDA_R_8F_E4M3, product_.in, product_.out);
    x_layout_ = layout(CUDA_R_8F_E4M3, product_.in, kRows);
    c_layout_ = layout(CUDA_R_16BF, product_.out, kRows);
    y_layout_ = layout(product_.narrow ? CUDA_R_8F_E4M3 : CUDA_R_16BF, product_.out, kRows);
  }

  /// The fastest of those that the library offers; Error(failed) where none runs.
  void choose(Stream stream) {
    cublasLtMatmulPreference_t preference = nullptr;
    library_.check(library_.MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    library_.check(
        library_.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &kWorkspaceBytes, sizeof kWorkspaceBytes),
        "cublasLtMatmulPreferenceSetAttribute");
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found{};
    int count = 0;
    library_.check(library_.MatmulAlgoGetHeuristic(handle_, operation_, weight_layout_, x_layout_,
                                                   c_layout_, y_layout_, preference,
                                                   kMostAlgorithms, found.data(), &count),
                   "an algorithm for the FP8 product");
    int running = 0;
    const auto runs = [&](int way) {
      const auto& offered = found[static_cast<std::size_t>(way)];
      algorithm_ = offered.algo;
      const bool well =
          offered.state == CUBLAS_STATUS_SUCCESS && status_of(stream) == CUBLAS_STATUS_SUCCESS;
      running += well ? 1 : 0;
      return well;
    };
    const auto time = [&](int way) {
      algorithm_ = found[static_cast<std::size_t>(way)].algo;
      return kernels::device::milliseconds_of(stream, kTimedRuns, "an FP8 product",
                                              [&] { run(stream); });
    };
    const int best = kernels::device::fastest_way(count, /*deterministic=*/false, runs, time);
    if (best < 0)
      throw Error(ErrorCode::failed,
                  std::to_string(count) + " algorithms are offered and none runs", "cuBLASLt");
    algorithm_ = found[static_cast<std::size_t>(best)].algo;
    note_ = "proposal " + std::to_string(best + 1) + " is the fastest of " +
            std::to_string(running) + " that run";
  }

  const CublasLtLibrary& library_ = CublasLtLibrary::get();
  Fp8Product product_;
  DeviceMemory<E4m3> x_, weight_, y8_;
  DeviceMemory<BFloat16> bias_, c_, y_;
  DeviceMemory<float> scales_;
  DeviceMemory<std::uint8_t> workspace_{kWorkspaceBytes};
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t weight_layout_ = nullptr, x_layout_ = nullptr, c_layout_ = nullptr,
                         y_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::string note_;
};

Case fp8_case(Fp8Product product, bool scale_of_row) {
  product.scale_of_row = scale_of_row;
  const auto read = static_cast<double>(kRows * product.in + product.in * product.out);
  const auto results = static_cast<double>(kRows * product.out);
  const double written = results * (product.narrow ? 1 : sizeof(BFloat16));
  Case result{std::string("fp8 ") + product.name +
                  (scale_of_row ? ", a scale a row" : ", one scale a matrix"),
              "rows 8 x 8161, " + std::to_string(product.in) + " to " + std::to_string(product.out),
              product.narrow ? "e4m3 to e4m3" : "e4m3 to bfloat16",
              read + written + (product.add ? results * sizeof(BFloat16) : 0),
              2 * results * static_cast<double>(product.in),
              [product](Stream stream) -> Work {
                auto call = std::make_shared<Fp8Call>(product, stream);
                return {[call](Stream s) { call->run(s); },
                        [call] { return call->finite(); },
                        {},
                        call->note()};
              }};
  result.may_refuse = true;
  return result;
}

}  // namespace

std::vector<Case> fp8_cases() {
  constexpr std::int64_t kDim = sized(768, 64);
  std::vector<Case> cases;
  for (const bool scale_of_row : {false, true}) {
    for (const Fp8Product& product :
         {Fp8Product{.name = "qkv", .in = kDim, .out = 3 * kDim},
          Fp8Product{.name = "fc1, gelu", .in = kDim, .out = 4 * kDim, .gelu = true},
          Fp8Product{
              .name = "fc1, gelu, fp8", .in = kDim, .out = 4 * kDim, .gelu = true, .narrow = true},
          Fp8Product{.name = "fc2", .in = 4 * kDim, .out = kDim},
          Fp8Product{.name = "fc2 + x", .in = 4 * kDim, .out = kDim, .add = true}})
      cases.push_back(fp8_case(product, scale_of_row));
  }
  return cases;
}

}  // namespace hydrascope::bench
