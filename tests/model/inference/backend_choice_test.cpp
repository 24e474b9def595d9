// Softmax on a GPU asks LibTorch's backends, which the host has not: here they are stand-ins that serve
// some shapes, fail and take as long as they are told.
#include "model/inference/backend_choice.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::model::inference {
namespace backend_choice_test {

using Shape = std::vector<std::int64_t>;
constexpr int kCount = 3;

/// Backends that give their own number.
struct StandIns {
  explicit StandIns(bool deterministic = false) : choice(kCount, deterministic) {}

  int compute(const Shape& shape) {
    const auto run = [&](int backend) {
      calls += std::to_string(backend);
      if (const auto found = failures.find(backend); found != failures.end()) found->second();
      last = backend;
      return at::scalar_tensor(backend);
    };
    const auto time = [&](const std::function<void()>& work) {
      work();
      return seconds.at(last);
    };
    calls.clear();
    return choice.compute(shape, run, time).item<int>();
  }

  BackendChoice choice;
  std::map<int, float> seconds{{0, 3.F}, {1, 1.F}, {2, 0.1F}};
  std::map<int, std::function<void()>> failures;
  std::string calls;
  int last = -1;
};

void refuses() { TORCH_CHECK(false, "No available kernel"); }
void lacks_memory() { TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory"); }

TEST(BackendChoiceTest, TheFastestIsMeasuredOnceForEachShape) {
  StandIns backends;
  EXPECT_EQ(backends.compute({8, 100}), 1) << "the last one is for want of another, however fast";
  EXPECT_EQ(backends.calls, "00111") << "each runs, then it is timed; then the chosen one computes";
  EXPECT_EQ(backends.compute({8, 100}), 1);
  EXPECT_EQ(backends.calls, "1");
  backends.seconds[0] = 0.5F;
  EXPECT_EQ(backends.compute({8, 100}), 1) << "of this shape it is settled";
  EXPECT_EQ(backends.compute({8, 1}), 0);
  EXPECT_EQ(backends.choice.chosen(), (std::vector{1, 0}));
}

TEST(BackendChoiceTest, WhatRefusesAShapeIsLeftOut) {
  StandIns backends;
  EXPECT_EQ(backends.compute({8, 100}), 1);
  backends.failures[1] = refuses;  // the fewer queries of the last block
  EXPECT_EQ(backends.compute({1, 100}), 0);
  EXPECT_EQ(backends.compute({1, 100}), 0);
  EXPECT_EQ(backends.calls, "0");
  backends.failures[0] = refuses;
  EXPECT_EQ(backends.compute({2, 100}), 2) << "nothing else serves it";
  backends.failures[2] = refuses;
  for (int i = 0; i < 2; ++i) EXPECT_THROW(backends.compute({3, 100}), c10::Error);
  backends.failures.clear();
  EXPECT_EQ(backends.compute({3, 100}), 1) << "where all refused they are asked again";
}

TEST(BackendChoiceTest, TheNextOneStepsInForOneThatFailsLater) {
  StandIns backends;
  EXPECT_EQ(backends.compute({8, 100}), 1);
  backends.failures[1] = refuses;
  EXPECT_EQ(backends.compute({8, 100}), 0);
  EXPECT_EQ(backends.calls, "1000");
  backends.failures.clear();
  EXPECT_EQ(backends.compute({8, 100}), 0) << "it is not asked again";
  backends.failures[0] = refuses;
  backends.failures[2] = refuses;
  EXPECT_THROW(backends.compute({8, 100}), c10::Error);
}

TEST(BackendChoiceTest, WantOfMemoryIsNoRefusal) {
  StandIns backends;
  backends.failures[1] = lacks_memory;
  EXPECT_EQ(backends.compute({8, 100}), 0) << "another one needs less";
  backends.failures[0] = lacks_memory;
  EXPECT_THROW(backends.compute({8, 100}), c10::OutOfMemoryError);
  backends.failures.clear();
  EXPECT_EQ(backends.compute({8, 100}), 0) << "when there is memory again";
  backends.failures[0] = backends.failures[1] = backends.failures[2] = lacks_memory;
  EXPECT_THROW(backends.compute({1, 1}), c10::OutOfMemoryError);
}

TEST(BackendChoiceTest, DeterministicTakesTheFirstThatServes) {
  StandIns backends(true);
  EXPECT_EQ(backends.compute({8, 100}), 0);
  backends.failures[0] = refuses;
  EXPECT_EQ(backends.compute({1, 100}), 1);
  backends.failures[1] = refuses;
  EXPECT_EQ(backends.compute({2, 100}), 2);
}

}  // namespace backend_choice_test
}  // namespace hydrascope::model::inference
