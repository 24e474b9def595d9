// Host code of CUDA that no product and no plan shows: what is there, what is missing, what refuses.
#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_library.h"
#include "kernels/linear/cublas_lt_products.h"
#include "model/device.h"
#include "tests/error_matchers.h"
#include "tests/stand_in/stand_in.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

namespace hydrascope::kernels {
namespace host_code_test {

using linear::cuda::CublasLtLibrary;
using linear::cuda::CublasLtOptions;
using linear::cuda::Products;
using linear::cuda::ProductShape;
using linear::cuda::ProductType;

class HostCode : public ::testing::Test {
 protected:
  void SetUp() override { stand_in::reset(); }
  void TearDown() override {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "LibTorch would report it as its own";
    stand_in::reset();
  }

  /// Products of a stream, of memory that ends after `allocations` pieces.
  static std::unique_ptr<Products> products(int allocations = 1000, bool deterministic = false) {
    CublasLtOptions options;
    options.deterministic = deterministic;
    options.allocate = [allocations](std::size_t bytes) mutable -> std::shared_ptr<void> {
      if (--allocations < 0) throw std::bad_alloc();
      void* memory = nullptr;
      device::check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
      return {memory, cudaFree};
    };
    return linear::cuda::make_cublas_lt_products(std::move(options));
  }
  /// Three images of four rows, the same c for all.
  static ProductShape with_repeated_c() {
    ProductShape shape;
    shape.type = ProductType::bfloat16;
    shape.rows = 4;
    shape.in = shape.x_stride = 32;
    shape.out = shape.y_stride = shape.c_stride = 16;
    shape.batch = 3;
    shape.x_batch_stride = 4 * 32;
    shape.y_batch_stride = 5 * 16;
    shape.add = true;
    return shape;
  }
  static std::string planned(Products& products, const ProductShape& shape) {
    products.plan(shape);
    return products.describe().back();
  }
};

TEST_F(HostCode, NamesTheLibraryThatDoesNotLoad) {
  EXPECT_ERROR(CublasLtLibrary("libnothing.so.13"), failed, "libnothing.so.13", "CUDA toolkit");
  EXPECT_ERROR(CublasLtLibrary("libm.so.6"), failed, "no function cublasLtCreate");
}

TEST_F(HostCode, TakesTheFastestAlgorithm) {
  const std::string shape = "3 x 4 x 32 times 32 x 16 bfloat16, algorithm ";
  EXPECT_EQ(planned(*products(), with_repeated_c()), shape + "66");
  EXPECT_EQ(planned(*products(1000, true), with_repeated_c()), shape + "21");
  stand_in::cublas_lt().algorithms = {{1, -1, 2}, {2, 5, 2, false}, {3, 4, 2}, {4, 2, 32}};
  EXPECT_EQ(planned(*products(), with_repeated_c()), shape + "3")
      << "the first refuses, the second is offered as one that does, the last wants 32 bytes";
  stand_in::cublas_lt().algorithms = {{1, 2, 2}, {2, 1, 2}};
  stand_in::fail("cublasLtMatmul", 13, 7);  // CUBLAS_STATUS_EXECUTION_FAILED while it is timed
  EXPECT_EQ(planned(*products(), with_repeated_c()), shape + "1");
}

TEST_F(HostCode, OneImageAfterTheOtherWhereTheBatchIsRefused) {
  stand_in::cublas_lt().repeats_c = false;
  EXPECT_EQ(planned(*products(), with_repeated_c()),
            "3 times 4 x 32 times 32 x 16 bfloat16, algorithm 66");
  EXPECT_EQ(planned(*products(1), with_repeated_c()),
            "3 times 4 x 32 times 32 x 16 bfloat16, algorithm 21")
      << "no memory to measure in: the first choice";
  stand_in::reset();
  EXPECT_EQ(planned(*products(1), with_repeated_c()),
            "3 times 4 x 32 times 32 x 16 bfloat16, algorithm 21")
      << "nor is what the manual does not promise taken unmeasured";
}

TEST_F(HostCode, AChoiceThatIsTheSameInEveryRunNeedsItsMemory) {
  stand_in::cublas_lt().algorithms = {{1, -1, 2}, {2, 3, 2}, {3, 2, 2}};  // the first does not run
  EXPECT_EQ(planned(*products(1000, true), with_repeated_c()),
            "3 x 4 x 32 times 32 x 16 bfloat16, algorithm 2");
  EXPECT_THROW(products(1, true)->plan(with_repeated_c()), std::bad_alloc)
      << "else algorithm 1, or one image after the other";
}

TEST_F(HostCode, SaysWhatHasNoAlgorithmAndForgetsIt) {
  const auto some = products();
  stand_in::cublas_lt().algorithms.clear();
  for (int i = 0; i < 2; ++i)
    EXPECT_ERROR(some->plan(with_repeated_c()), failed,
                 "no algorithm that runs 3 x 4 x 32 times 32 x 16 bfloat16");
  stand_in::cublas_lt() = {};
  ProductShape odd = with_repeated_c();
  odd.x_alignment = 4;
  EXPECT_EQ(some->plan(odd), 0);
  EXPECT_NE(some->describe().front().find("algorithm 70"), std::string::npos)
      << "the fastest of those that need no more alignment";
  stand_in::fail("cublasLtMatmulAlgoGetHeuristic", 3);
  EXPECT_ERROR(some->plan(with_repeated_c()), out_of_memory, "CUBLAS_STATUS_ALLOC_FAILED");
  EXPECT_THROW(products(0), std::bad_alloc) << "not even the workspace";
}

TEST_F(HostCode, ErrorsOfCudaAreOurs) {
  EXPECT_NO_THROW(device::check_cuda(cudaSuccess, "nothing"));
  EXPECT_ERROR(device::check_cuda(cudaErrorMemoryAllocation, "cudaMalloc"), out_of_memory,
               "out of memory (cudaErrorMemoryAllocation)");
  EXPECT_ERROR(device::check_cuda(cudaErrorInvalidValue, "a call"), failed, "CUDA says", "a call");
  EXPECT_ERROR(device::launch_kernel("some_kernel", nullptr, {{1}, {2048}}, nullptr, nullptr),
               internal, "no GPU can launch a block 2048 x 1 x 1", "some_kernel");
  EXPECT_ERROR(device::launch_kernel("some_kernel", nullptr, {{1, 1 << 16}, {1}}, nullptr, nullptr),
               internal, "no GPU can launch a grid 1 x 65536 x 1");
}

TEST_F(HostCode, GpusAndWhyThereAreNone) {
  stand_in::machine().gpus = 2;
  device::GpuInfo info = device::gpu_info();
  ASSERT_EQ(info.gpus.size(), 2U);
  EXPECT_EQ(info.runtime + " " + info.driver, "13.0 13.0");
  EXPECT_TRUE(info.gpus[1].has_code);
  stand_in::fail("cudaGetDeviceProperties", cudaErrorInvalidValue);
  EXPECT_EQ(device::gpu_info().gpus.size(), 1U) << "one that cannot be asked is left out";
  stand_in::machine().major = 8;
  EXPECT_FALSE(device::gpu_info().gpus[0].has_code);
  stand_in::machine().gpus = 0;
  EXPECT_EQ(device::gpu_info().why_none, "the driver shows no GPU");
  stand_in::fail("cudaGetDeviceCount", cudaErrorMemoryAllocation);
  EXPECT_EQ(device::gpu_info().why_none, "out of memory");
  stand_in::machine().driver = 0;
  stand_in::fail("cudaGetDeviceCount", cudaErrorNoDevice);
  EXPECT_EQ(device::gpu_info().why_none, "no NVIDIA driver is loaded");
  cudaGetLastError();
}

// The program has run a model on the processor before: torch_device.cpp.
TEST_F(HostCode, DevicesThatCanBeChosen) {
  EXPECT_TRUE(model::resolve_device("cuda").is_cuda());
  EXPECT_TRUE(model::resolve_device("auto").is_cuda());
  EXPECT_ERROR(model::resolve_device("cuda:1"), failed, "there are 1 GPUs, counted from 0");
}

}  // namespace host_code_test
}  // namespace hydrascope::kernels
