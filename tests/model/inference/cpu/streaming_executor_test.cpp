// The engine alone, free of LibTorch, so that it runs under every sanitizer. That it computes the
// right thing is plan_test.cpp's matter.
#include "model/inference/cpu/streaming_executor.h"

#include "model/inference/cpu/mixings/hydra.h"
#include "model/inference/cpu/mixings/linear.h"
#include "model/inference/cpu/mixings/softmax.h"
#include "model/inference/cpu/mixings/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {
namespace streaming_executor_test {

using kernels::AlignedBuffer;
using kernels::Storage;

constexpr std::int64_t kDim = 64;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kPatch = 4;

AlignedBuffer<float> random_values(std::size_t count, float size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  AlignedBuffer<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

PackedLinear random_linear(Storage storage, std::int64_t out, std::int64_t in, unsigned seed) {
  const auto weight = random_values(static_cast<std::size_t>(out * in), 0.1F, seed);
  PackedLinear linear;
  linear.weight = kernels::linear::PackedWeight(storage, weight.data(), out, in, in);
  linear.bias = random_values(static_cast<std::size_t>(out), 0.1F, seed + 1);
  return linear;
}

PackedLinear quantised_linear(std::int64_t out, std::int64_t in, unsigned seed) {
  const auto weight = random_values(static_cast<std::size_t>(out * in), 0.1F, seed);
  PackedLinear linear;
  linear.quantised = kernels::quantised_linear::QuantisedWeight(weight.data(), out, in, in);
  linear.bias = random_values(static_cast<std::size_t>(out), 0.1F, seed + 1);
  linear.multiplier = random_values(static_cast<std::size_t>(in), 0, seed + 2);
  for (float& m : linear.multiplier) m = 1;
  return linear;
}

/// Gives each token its query, for all tokens at once as modules do.
template <class T>
class CopyMixing final : public Mixing<T> {
 public:
  [[nodiscard]] MixingManner manner() const override {
    return {.rows = MixingManner::Rows::until_combined,
            .mixes_all_at_once = true,
            .wants_all_queries = true};
  }
  MixingRoom plan(const Extent&) override { return {}; }
  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    for (std::int64_t token = 0; token < meeting.images * memory.num_tokens; ++token)
      std::copy_n(memory.kept.queries + token * memory.kept.query_stride, memory.dim,
                  memory.mixed + token * memory.dim);
  }
};

enum class Kind { softmax, hydra, hedgehog, copy, windows };

/// A network, and what its layers mix with.
struct Network : PackedNetwork {
  std::vector<Kind> kinds;
  PrefixWeights first_windows;  ///< of layer 0

  [[nodiscard]] AnyMixing mixing(std::size_t layer, const MixingSite& site) const {
    switch (kinds[layer]) {
      case Kind::softmax: return make_mixing<SoftmaxMixing>(storage, site, 1.0F);
      case Kind::hydra: return make_mixing<HydraMixing>(storage, site, HydraParameters{});
      case Kind::hedgehog:
        return make_mixing<LinearMixing>(
            storage,
            kernels::linear_attention::Shape{kHeads,
                                             2 * kDim / kHeads,
                                             kDim / kHeads,
                                             {kernels::linear_attention::Feature::exp_pair}},
            TokenWeights{});
      case Kind::copy: return make_mixing<CopyMixing>(storage);
      case Kind::windows:
        return make_mixing<WindowMixing>(storage, site,
                                         layer == 0 ? first_windows : PrefixWeights{});
    }
    return {};
  }
};

Network make_network(Storage storage, bool average) {
  Network network;
  network.kinds = {Kind::softmax, Kind::hydra, Kind::hedgehog, Kind::copy, Kind::softmax};
  network.storage = storage;
  network.embed_dim = kDim;
  network.hidden_dim = 3 * kDim;
  network.num_heads = kHeads;
  network.num_prefix = 1;
  network.patch_size = kPatch;
  network.in_chans = 3;
  network.num_classes = kClasses;
  network.layer_norm_eps = 1e-6F;
  network.patch_embed = random_linear(storage, kDim, 3 * kPatch * kPatch, 1);
  for (unsigned layer = 0; layer < 5; ++layer) {
    PackedBlock block;
    block.query = random_linear(storage, kDim, kDim, 10 * layer + 2);
    block.key_value = random_linear(storage, 2 * kDim, kDim, 10 * layer + 3);
    block.proj = random_linear(storage, kDim, kDim, 10 * layer + 4);
    block.fc1 = random_linear(storage, 3 * kDim, kDim, 10 * layer + 5);
    block.fc2 = random_linear(storage, kDim, 3 * kDim, 10 * layer + 6);
    if (layer == 2) {
      // Wider queries than its neighbours'.
      block.query = random_linear(storage, 2 * kDim, kDim, 10 * layer + 2);
      block.key_value = random_linear(storage, 3 * kDim, kDim, 10 * layer + 3);
    }
    network.blocks.push_back(std::move(block));
  }
  network.head.average = average;
  network.head.norm = {random_values(kDim, 1, 7), random_values(kDim, 1, 8)};
  network.head.classifier = random_linear(Storage::float32, kClasses, kDim, 9);
  return network;
}

/// The same with windows of 7x6 before, between and behind other mechanisms.
Network make_windowed_network(Storage storage, bool average) {
  Network network = make_network(storage, average);
  for (const std::size_t layer : {0U, 3U, 4U}) network.kinds[layer] = Kind::windows;
  network.first_windows = {{1.25F, 0.5F}, {2, 1}};
  network.window = GridExtent{7, 6};
  return network;
}

/// Networks with windows see an overview of 3x4 patches beside any picture.
TokenGrid make_grid(const Network& network, std::int64_t rows, std::int64_t columns) {
  if (!network.window) return {1, rows, columns};
  return {1, rows, columns, 3, 4};
}

ImageGeometry make_geometry(const Network& network, const TokenGrid& grid) {
  ImageGeometry geometry;
  geometry.grid = grid;
  geometry.prefix = random_values(kDim, 1, 20);
  geometry.order = token_order(grid, network.window.value_or(GridExtent{grid.rows, grid.columns}));
  geometry.position =
      random_values(static_cast<std::size_t>(grid.num_image_tokens() * kDim), 1, 21);
  const MixingSite site{geometry.grid, geometry.order, network.window.has_value(), kHeads,
                        kDim / kHeads};
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    geometry.layers.push_back({network.mixing(layer, site), {}, {}});
  return geometry;
}

void run(const AnyExecutor& any, const AlignedBuffer<float>& images, std::int64_t count,
         std::vector<float>& logits, const Observers& observers = {}) {
  std::visit(
      [&](const auto& executor) { executor->run(images.data(), count, logits.data(), observers); },
      any);
}

std::vector<float> logits_of(const Network& network, std::int64_t rows, std::int64_t columns,
                             std::int64_t batch, std::int64_t count, int threads,
                             const ExecutionOptions& options = {}) {
  kernels::device::ThreadTeam team(threads);
  const TokenGrid grid = make_grid(network, rows, columns);
  const AnyExecutor executor =
      make_executor(network, make_geometry(network, grid), batch, team, options);
  const auto images = random_values(
      static_cast<std::size_t>(batch * 3 * grid.num_patches() * kPatch * kPatch), 1, 30);
  std::vector<float> logits(static_cast<std::size_t>(count * kClasses), NAN);
  run(executor, images, count, logits);
  std::vector<float> again(logits.size());
  run(executor, images, count, again);
  EXPECT_EQ(logits, again) << "the same call, the same bits";
  return logits;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

class StreamingExecutorTest : public ::testing::TestWithParam<std::pair<Storage, bool>> {};

TEST_P(StreamingExecutorTest, ThreadsChangeNothingButTheOrderOfSums) {
  const Network network = make_network(GetParam().first, GetParam().second);
  const float tolerance = GetParam().first == Storage::float32 ? 1e-5F : 0.02F;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 11}, {20, 19}}) {
    const std::vector<float> one = logits_of(network, rows, columns, 2, 2, 1);
    for (const float value : one) ASSERT_TRUE(std::isfinite(value));
    expect_near(logits_of(network, rows, columns, 2, 2, 4), one, tolerance);
  }
}

/// As on a machine with so many processors.
std::vector<float> rehearsed_logits_of(const Network& network, std::int64_t rows,
                                       std::int64_t columns, std::int64_t count, int threads,
                                       kernels::device::Rehearsal& rehearsal,
                                       const ExecutionOptions& options = {}) {
  kernels::device::ThreadTeam team(threads, rehearsal);
  const TokenGrid grid = make_grid(network, rows, columns);
  const AnyExecutor executor =
      make_executor(network, make_geometry(network, grid), count, team, options);
  const auto images = random_values(
      static_cast<std::size_t>(count * 3 * grid.num_patches() * kPatch * kPatch), 1, 30);
  std::vector<float> logits(static_cast<std::size_t>(count * kClasses), NAN);
  rehearsal.clear();
  run(executor, images, count, logits);
  return logits;
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
  EXPECT_GT(passes({}), by_tiles);
  EXPECT_LT(passes({}), passes({.splits = true}));
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
  for (unsigned layer = 0; layer < network.blocks.size(); ++layer) {
    PackedBlock& block = network.blocks[layer];
    block.query = quantised_linear(block.query.out(), kDim, 10 * layer + 2);
    block.key_value = quantised_linear(block.key_value.out(), kDim, 10 * layer + 3);
    block.proj = quantised_linear(kDim, kDim, 10 * layer + 4);
    block.fc1 = quantised_linear(3 * kDim, kDim, 10 * layer + 5);
    block.fc2 = quantised_linear(kDim, 3 * kDim, 10 * layer + 6);
  }
  // That all of it is there, and where, is seen by plan_test.cpp's twin.
  expect_near(logits_of(network, 9, 12, 2, 2, 2), wide, 0.05F);
}

TEST(StreamingExecutorOptions, FixedTilesGiveTheSameBits) {
  const Network network = make_network(Storage::float32, false);
  ExecutionOptions options;
  options.fixed_tiles = true;
  const std::vector<float> one = logits_of(network, 20, 19, 2, 2, 1, options);
  for (const float value : one) ASSERT_TRUE(std::isfinite(value));
  EXPECT_EQ(logits_of(network, 20, 19, 2, 2, 4, options), one);
  EXPECT_EQ(logits_of(network, 20, 19, 5, 2, 3, options), one) << "another batch";
}

TEST_P(StreamingExecutorTest, WindowsAreTheSameWhateverTilesAndThreadsCutThem) {
  const Network network = make_windowed_network(GetParam().first, GetParam().second);
  const float tolerance = GetParam().first == Storage::float32 ? 1e-5F : 0.02F;
  ExecutionOptions fixed;
  fixed.fixed_tiles = true;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 6}, {7, 11}, {20, 19}}) {
    const std::vector<float> one = logits_of(network, rows, columns, 2, 2, 1);
    for (const float value : one) ASSERT_TRUE(std::isfinite(value));
    expect_near(logits_of(network, rows, columns, 2, 2, 4), one, tolerance);
    EXPECT_EQ(logits_of(network, rows, columns, 2, 2, 4, fixed),
              logits_of(network, rows, columns, 2, 2, 3, fixed));
  }
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
