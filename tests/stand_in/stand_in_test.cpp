// The stand-in shows what it is there to show: one test per defect of host code. Graphs that are right are
// in the tests of plans and products.
#include "tests/stand_in/stand_in.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <cublasLt.h>
#include <stdexcept>
#include <vector>

namespace stand_in {
namespace stand_in_test {

class StandInTest : public ::testing::Test {
 protected:
  void SetUp() override {
    reset();
    cudaStreamCreateWithFlags(&one_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDefault);
    cudaMalloc(&device_, sizeof(int));
    pinned_ = static_cast<int*>(take_pinned(sizeof(int)));
  }
  void TearDown() override {
    cudaFree(device_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(one_);
    cudaStreamDestroy(other_);
    return_pinned(pinned_);
    reset();
  }
  cudaError_t send(cudaStream_t stream, int* from) {
    return cudaMemcpyAsync(device_, from, sizeof(int), cudaMemcpyHostToDevice, stream);
  }
  cudaError_t fetch(cudaStream_t stream) {
    return cudaMemcpyAsync(pinned_, device_, sizeof(int), cudaMemcpyDeviceToHost, stream);
  }

  cudaStream_t one_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void* device_ = nullptr;
  int* pinned_ = nullptr;
};

TEST_F(StandInTest, WhatIsNotWaitedForHasNotHappened) {
  int value = 5;
  send(one_, &value);
  fetch(one_);
  EXPECT_NE(*pinned_, 5);
  cudaStreamSynchronize(other_);
  EXPECT_NE(*pinned_, 5) << "another stream";
  cudaStreamSynchronize(one_);
  EXPECT_EQ(*pinned_, 5);
}

TEST_F(StandInTest, AnEventOrdersStreams) {
  int value = 5;
  send(one_, &value);
  cudaStreamWaitEvent(other_, event_);  // never recorded: holds nothing back
  fetch(other_);
  cudaStreamSynchronize(other_);
  EXPECT_NE(*pinned_, 5);
  cudaEventRecord(event_, one_);
  cudaStreamWaitEvent(other_, event_);
  fetch(other_);
  cudaStreamSynchronize(other_);
  EXPECT_EQ(*pinned_, 5);
}

TEST_F(StandInTest, PinnedMemoryIsReadLateAndOtherMemoryAtOnce) {
  *pinned_ = 5;
  send(one_, pinned_);
  *pinned_ = 6;
  cudaStreamSynchronize(one_);
  EXPECT_EQ(*static_cast<int*>(device_), 6);
  int pageable = 7;
  send(one_, &pageable);
  pageable = 8;
  cudaStreamSynchronize(one_);
  EXPECT_EQ(*static_cast<int*>(device_), 7);
}

// A copy of pageable memory may still be on its way when cudaMemcpy returns.
TEST_F(StandInTest, ACopyIsNotWaitedForByANonBlockingStream) {
  const int value = 5;
  cudaMemcpy(device_, &value, sizeof value, cudaMemcpyDefault);
  fetch(one_);
  cudaStreamSynchronize(one_);
  EXPECT_NE(*pinned_, 5);
  cudaDeviceSynchronize();
  fetch(one_);
  cudaStreamSynchronize(one_);
  EXPECT_EQ(*pinned_, 5);
}

TEST_F(StandInTest, ACaptureEndsWithAnErrorAfterWhatItForbids) {
  const std::vector<std::function<void()>> forbidden = {
      [&] { cudaStreamSynchronize(other_); },
      [&] { cudaDeviceSynchronize(); },
      [&] { cudaEventSynchronize(event_); },
      [&] { cudaStreamWaitEvent(one_, event_); },
      [&] { cudaMemcpy(device_, pinned_, sizeof(int), cudaMemcpyDefault); },
      [&] { cudaMalloc(&device_, 4); },
      [&] { cudaFree(device_); },
      [&] { catch_up(one_); }};
  for (const auto& call : forbidden) {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(one_, cudaStreamCaptureModeThreadLocal);
    call();
    EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated)
        << "it stays until it is asked";
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(one_, &graph), cudaErrorInvalidValue) << "none was begun";
}

TEST_F(StandInTest, TimeIsThatOfTheWork) {
  cudaEvent_t end = nullptr;
  cudaEventCreateWithFlags(&end, cudaEventDefault);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorInvalidResourceHandle);
  cudaEventRecord(event_, one_);
  put(
      one_, [] {}, 3);
  cudaEventRecord(end, one_);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaSuccess);
  EXPECT_EQ(milliseconds, 3);
  cudaEventDestroy(end);
}

TEST_F(StandInTest, AFaultOfTheDeviceIsMetByWhoeverWaits) {
  const auto fault = [] { throw std::runtime_error("an illegal address"); };
  put(one_, fault);
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaErrorLaunchFailure);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "an illegal address");
  reset();
  put(one_, fault);
  cudaEventRecord(event_, one_);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorLaunchFailure);
}

TEST_F(StandInTest, AFaultOfTheDeviceStaysAndAnErrorOfACallIsToldOnce) {
  EXPECT_EQ(cudaEventSynchronize(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  put(one_, [] { throw std::runtime_error("an illegal address"); });
  EXPECT_EQ(cudaStreamSynchronize(one_), cudaErrorLaunchFailure);
  *pinned_ = 5;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(send(other_, pinned_), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaMalloc(&device_, 4), cudaErrorLaunchFailure);
  }
  reset();  // a new process
  EXPECT_EQ(send(other_, pinned_), cudaSuccess);
}

TEST_F(StandInTest, AttributesOfCublasLtHaveTheirSizes) {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 4);
  cublasLtMatmulPreferenceCreate(&preference);
  const std::int64_t value = 0;
  for (const std::size_t bytes : {4, 8}) {
    const auto takes = [&](std::size_t wanted) {
      return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    };
    const auto set = [&](cublasLtMatmulDescAttributes_t what) {
      return cublasLtMatmulDescSetAttribute(product, what, &value, bytes);
    };
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE), takes(4));
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER), takes(8));
    EXPECT_EQ(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &value, bytes),
        takes(4));
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &value, bytes),
              takes(8));
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &value, bytes),
              takes(8));
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &value, bytes),
              takes(4));
  }
  cublasLtMatmulDescDestroy(product);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST_F(StandInTest, MemoryReturnsInTheOrderOfItsStream) {
  bool returned = false;
  const auto give_back = [&returned] { returned = true; };
  put(one_, [&returned] { EXPECT_FALSE(returned); });
  release(one_, give_back);
  EXPECT_FALSE(returned);
  cudaStreamSynchronize(one_);
  EXPECT_TRUE(returned);
}

}  // namespace stand_in_test
}  // namespace stand_in
