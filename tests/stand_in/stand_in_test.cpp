// The stand-in shows what it is there to show: work that is not waited for, captures that are
// broken, faults that stay. The rest is in the tests of plans and products.
#include "tests/stand_in/stand_in.h"

#include <gtest/gtest.h>

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

TEST_F(StandInTest, WhatIsNotWaitedForHasNotHappenedAndAnEventOrdersStreams) {
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
