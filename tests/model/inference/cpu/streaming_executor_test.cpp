// The engine alone, free of LibTorch, so that it runs under every sanitizer. That it computes the
// right thing is plan_test.cpp's matter.
#include "model/inference/cpu/streaming_executor.h"

#include "tests/model/inference/cpu/small_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace streaming_executor_test {

using namespace executor_test;  // NOLINT(google-build-using-namespace)

class StreamingExecutorTest : public ::testing::TestWithParam<std::pair<Storage, bool>> {};

TEST_P(StreamingExecutorTest, ThreadsChangeNothingButTheOrderOfSums) {
  const float tolerance = GetParam().first == Storage::float32 ? 1e-5F : 0.02F;
  ExecutionOptions fixed;
  fixed.fixed_tiles = true;
  for (const bool windows : {false, true}) {
    const Network network = windows ? make_windowed_network(GetParam().first, GetParam().second)
                                    : make_network(GetParam().first, GetParam().second);
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 6}, {7, 11}, {20, 19}}) {
      const std::vector<float> one = logits_of(network, rows, columns, 2, 2, 1);
      for (const float value : one) ASSERT_TRUE(std::isfinite(value));
      expect_near(logits_of(network, rows, columns, 2, 2, 4), one, tolerance);
      const std::vector<float> same = logits_of(network, rows, columns, 2, 2, 1, fixed);
      EXPECT_EQ(logits_of(network, rows, columns, 2, 2, 4, fixed), same);
      EXPECT_EQ(logits_of(network, rows, columns, 5, 2, 3, fixed), same) << "another batch";
    }
  }
}

TEST_P(StreamingExecutorTest, TheSameBitsOnAnyNumberOfThreadsHoweverProductsAreCut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::vector<int> counts{3};  // a rehearsal is one slow thread there
#else
  const std::vector<int> counts{1, 2, 3, 8, 64, 128};
#endif
  const float tolerance = GetParam().first == Storage::float32 ? 1e-5F : 0.02F;
  for (const bool windows : {false, true}) {
    const Network network = windows ? make_windowed_network(GetParam().first, GetParam().second)
                                    : make_network(GetParam().first, GetParam().second);
    for (const std::int64_t images : {1, 3}) {
      kernels::device::Rehearsal rehearsal;
      const auto of = [&](int threads, const ExecutionOptions& options) {
        return rehearsed_logits_of(network, 12, 13, images, threads, rehearsal, options);
      };
      const std::vector<float> one = of(1, {.fixed_tiles = true, .splits = false});
      for (const float value : one) ASSERT_TRUE(std::isfinite(value));
      const std::size_t passes = rehearsal.size();
      for (const int threads : counts) {
        SCOPED_TRACE(std::to_string(threads) + " threads");
        EXPECT_EQ(of(threads, {.fixed_tiles = true}), one);
        for (const bool splits : {false, true}) {
          EXPECT_EQ(of(threads, {.fixed_tiles = true, .splits = splits}), one);
          if (splits) {
            EXPECT_GT(rehearsal.size(), passes + 10) << "threads meet more often";
          }
          expect_near(of(threads, {.splits = splits}), one, tolerance);
        }
      }
    }
  }
}

TEST(StreamingExecutorOptions, ThreadsWithATileEachMeetOncePerLayer) {
  const Network network = make_network(Storage::float32, false);
  const auto passes = [&](std::int64_t images, int threads, const ExecutionOptions& options) {
    kernels::device::Rehearsal rehearsal;
    rehearsed_logits_of(network, 14, 14, images, threads, rehearsal, options);
    return rehearsal.size();
  };
  for (const auto& [images, threads] : {std::pair{1, 1}, {1, 2}, {64, 64}})
    EXPECT_EQ(passes(images, threads, {}), passes(images, threads, {.splits = false}));
}

TEST(StreamingExecutorOptions, AllThreadsTakeThePrefixBehindTheWindows) {
  const Network network = make_windowed_network(Storage::float32, false);
  kernels::device::Rehearsal rehearsal;
  const auto passes = [&](const ExecutionOptions& options) {
    rehearsed_logits_of(network, 24, 26, 1, 2, rehearsal, options);
    return rehearsal.size();
  };
  const std::size_t by_tiles = passes({.splits = false});
  const std::size_t of_prefix = passes({.splits = false, .splits_prefix = true});
  EXPECT_GT(of_prefix, by_tiles);
  EXPECT_LT(of_prefix, passes({.splits = true}));
  // Threads that meet take longer than one thread with the weights of so narrow a network.
  EXPECT_EQ(passes({}), by_tiles);
}

// One token, a distilled model's two, DINOv2's with registers.
TEST_P(StreamingExecutorTest, APrefixIsTheSameBitsHoweverItIsCut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kMostThreads = 2;
#else
  constexpr int kMostThreads = 3;
#endif
  for (const std::int64_t prefix : {1, 2, 5}) {
    Network network = make_windowed_network(GetParam().first, GetParam().second);
    network.num_prefix = prefix;
    Network on_integers = quantised(make_windowed_network(GetParam().first, GetParam().second));
    on_integers.num_prefix = prefix;
    for (int threads = 2; threads <= kMostThreads; ++threads) {
      SCOPED_TRACE(std::to_string(prefix) + " prefix tokens, " + std::to_string(threads) +
                   " threads");
      const std::vector<float> logits =
          expect_same_bits_however_the_prefix_is_cut(network, 24, 26, 2, threads);
      EXPECT_EQ(logits_of(network, 24, 26, 2, 2, threads,
                          {.fixed_tiles = true, .splits = false, .splits_prefix = true}),
                logits)
          << "threads indeed";
      expect_same_bits_however_the_prefix_is_cut(on_integers, 24, 26, 2, threads);
    }
  }
}

TEST_P(StreamingExecutorTest, FewerImagesThanPlannedAreServed) {
  const Network network = make_network(GetParam().first, GetParam().second);
  const std::vector<float> three = logits_of(network, 6, 5, 3, 3, 2);
  std::vector<float> two = logits_of(network, 6, 5, 3, 2, 2);
  expect_near(two, {three.begin(), three.begin() + 2 * kClasses}, 0);
}

TEST(StreamingExecutorOptions, EachBlockIsToldWhenItIsDone) {
  const Network network = make_network(Storage::float32, false);
  kernels::device::ThreadTeam team(2);
  const auto images = random_values(2 * 3 * 6 * 5 * kPatch * kPatch, 1, 30);
  std::vector<float> logits(2 * kClasses);
  std::vector<std::int64_t> told;
  const std::function<void(std::int64_t)> tell = [&](std::int64_t done) { told.push_back(done); };
  Observers observers;
  observers.block_done = &tell;
  run(make_executor(network, make_geometry(network, {1, 6, 5}), 2, team), images, 2, logits,
      observers);
  std::vector<std::int64_t> all(network.blocks.size());
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(told, all);
}

TEST(StreamingExecutorOptions, QuantisedLayersAndTheirRanges) {
  Network network = make_network(Storage::bfloat16, false);
  const std::vector<float> wide = logits_of(network, 9, 12, 2, 2, 2);
  kernels::device::ThreadTeam team(3);
  ChannelRanges ranges;
  Observers observers;
  observers.ranges = &ranges;
  const auto images = random_values(2 * 3 * 9 * 12 * kPatch * kPatch, 1, 30);
  std::vector<float> logits(2 * kClasses);
  run(make_executor(network, make_geometry(network, {1, 9, 12}), 2, team), images, 2, logits,
      observers);
  ASSERT_EQ(ranges.size(), network.blocks.size());
  for (const BlockRanges& block : ranges) {
    EXPECT_EQ(block.qkv.size(), static_cast<std::size_t>(kDim));
    EXPECT_EQ(block.fc2.size(), static_cast<std::size_t>(3 * kDim));
    for (const float range : block.qkv) EXPECT_GT(range, 0);
  }
  network = quantised(std::move(network));
  // That all of it is there, and where, is seen by plan_test.cpp's twin.
  expect_near(logits_of(network, 9, 12, 2, 2, 2), wide, 0.05F);
}

TEST(StreamingExecutorOptions, OneWindowIsSoftmax) {
  Network network = make_network(Storage::float32, true);
  network.kinds[3] = Kind::hydra;  // a module needs row-major order
  const std::vector<float> softmax = logits_of(network, 12, 13, 2, 2, 2);
  network.window = GridExtent{12, 13};
  for (const std::size_t layer : {0U, 4U}) network.kinds[layer] = Kind::windows;
  ImageGeometry geometry = make_geometry(network, {1, 12, 13});
  kernels::device::ThreadTeam team(2);
  const auto images = random_values(2 * 3 * 12 * 13 * kPatch * kPatch, 1, 30);
  std::vector<float> logits(2 * kClasses);
  run(make_executor(network, std::move(geometry), 2, team), images, 2, logits);
  expect_near(logits, softmax, 1e-5F);
}

/// The network with exits behind three of its layers.
Network with_exits(Network network) {
  const auto linear = [](std::int64_t out, std::int64_t in, unsigned seed) {
    return random_linear(Storage::float32, out, in, seed);
  };
  PackedExits& exits = network.exits;
  exits.layers = {0, 2, 3};
  for (unsigned layer = 1; layer < 5; ++layer) {
    PackedClassBlock& block = exits.blocks.emplace_back();
    block.query = linear(kDim, kDim, 100 * layer);
    for (unsigned head = 0; head < kHeads; ++head)
      block.keys.push_back(linear(kDim, kDim / kHeads, 100 * layer + 10 + head));
    block.value = linear(kDim, kDim, 100 * layer + 1);
    block.proj = linear(kDim, kDim, 100 * layer + 2);
    block.fc1 = linear(3 * kDim, kDim, 100 * layer + 3);
    block.fc2 = linear(kDim, 3 * kDim, 100 * layer + 4);
  }
  exits.norm = {random_values(kDim, 1, 50), random_values(kDim, 1, 51)};
  exits.classifier = linear(kClasses, kDim, 52);
  exits.stop = linear(1, kDim, 53);
  return network;
}

// That an exit computes the right thing is plan_exits_test.cpp's matter.
TEST_P(StreamingExecutorTest, ImagesThatLeaveDoNotDisturbTheOthers) {
  constexpr std::int64_t kImages = 9;
  constexpr std::int64_t kExits = 3;
  ExecutionOptions fixed;
  fixed.fixed_tiles = true;
  for (const bool windows : {false, true}) {
    const Network network =
        with_exits(windows ? make_windowed_network(GetParam().first, GetParam().second)
                           : make_network(GetParam().first, GetParam().second));
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 11}, {20, 19}}) {
      const std::int64_t image_size = 3 * rows * columns * kPatch * kPatch;
      const auto images = random_values(static_cast<std::size_t>(kImages * image_size), 1, 30);
      kernels::device::ThreadTeam team(3);
      const TokenGrid grid = make_grid(network, rows, columns);
      const AnyExecutor executor =
          make_executor(network, make_geometry(network, grid), kImages, team, fixed);
      std::vector<float> whole(kImages * kClasses);
      run(executor, images, kImages, whole);

      std::vector<float> scores(kImages * kExits);
      std::vector<std::int64_t> classes(kImages * kExits);
      ExitRecord record{.scores = scores.data(), .classes = classes.data()};
      Observers observers;
      observers.exits = &record;
      std::vector<float> watched(whole.size());
      run(executor, images, kImages, watched, observers);
      EXPECT_EQ(watched, whole) << "all stay";

      std::vector<float> sorted = scores;
      std::ranges::nth_element(sorted, sorted.begin() + kImages);
      std::vector<std::int64_t> layers(kImages, -1);
      record = {.leave = true, .threshold = sorted[kImages], .layers = layers.data()};
      std::vector<float> found(whole.size(), NAN);
      run(executor, images, kImages, found, observers);
      for (std::int64_t image = 0; image < kImages; ++image) {
        const auto first = static_cast<std::size_t>(image * kExits);
        std::size_t exit = 0;
        while (exit < kExits && !(scores[first + exit] > record.threshold)) ++exit;
        const auto left = static_cast<std::size_t>(image);
        ASSERT_EQ(layers[left], exit < kExits ? network.exits.layers[exit] : 4) << image;
        const auto begin = found.begin() + image * kClasses;
        if (exit == kExits)
          EXPECT_TRUE(std::equal(begin, begin + kClasses, whole.begin() + image * kClasses));
        else
          EXPECT_EQ(std::max_element(begin, begin + kClasses) - begin, classes[first + exit]);
        AlignedBuffer<float> alone(static_cast<std::size_t>(image_size));
        std::copy_n(images.begin() + image * image_size, image_size, alone.begin());
        std::vector<float> one(kClasses);
        run(executor, alone, 1, one, observers);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), begin)) << image;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamingExecutorTest,
    ::testing::Values(std::pair{Storage::float32, false}, std::pair{Storage::bfloat16, false},
                      std::pair{Storage::float32, true}),
    [](const auto& storage) {
      return std::string(storage.param.first == Storage::float32 ? "float32" : "bfloat16") +
             (storage.param.second ? "Average" : "Token");
    });

}  // namespace streaming_executor_test
}  // namespace hydrascope::model::inference
