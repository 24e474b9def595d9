// A small network of random weights, free of LibTorch, and runs of it, for tests of the executor alone.
#pragma once

#include "model/inference/cpu/mixings/hydra.h"
#include "model/inference/cpu/mixings/linear.h"
#include "model/inference/cpu/mixings/softmax.h"
#include "model/inference/cpu/mixings/windows.h"
#include "model/inference/cpu/streaming_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {
namespace executor_test {

using kernels::AlignedBuffer;
using kernels::Storage;

constexpr std::int64_t kDim = 64;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kPatch = 4;

inline AlignedBuffer<float> random_values(std::size_t count, float size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  AlignedBuffer<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline PackedLinear random_linear(Storage storage, std::int64_t out, std::int64_t in,
                                  unsigned seed) {
  const auto weight = random_values(static_cast<std::size_t>(out * in), 0.1F, seed);
  PackedLinear linear;
  linear.weight = kernels::linear::PackedWeight(storage, weight.data(), out, in, in);
  linear.bias = random_values(static_cast<std::size_t>(out), 0.1F, seed + 1);
  return linear;
}

inline PackedLinear quantised_linear(std::int64_t out, std::int64_t in, unsigned seed) {
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

inline Network make_network(Storage storage, bool average) {
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
inline Network make_windowed_network(Storage storage, bool average) {
  Network network = make_network(storage, average);
  for (const std::size_t layer : {0U, 3U, 4U}) network.kinds[layer] = Kind::windows;
  network.first_windows = {{1.25F, 0.5F}, {2, 1}};
  network.window = GridExtent{7, 6};
  return network;
}

/// The same with all products of its blocks on integers.
inline Network quantised(Network network) {
  for (unsigned layer = 0; layer < network.blocks.size(); ++layer) {
    PackedBlock& block = network.blocks[layer];
    block.query = quantised_linear(block.query.out(), kDim, 10 * layer + 2);
    block.key_value = quantised_linear(block.key_value.out(), kDim, 10 * layer + 3);
    block.proj = quantised_linear(kDim, kDim, 10 * layer + 4);
    block.fc1 = quantised_linear(3 * kDim, kDim, 10 * layer + 5);
    block.fc2 = quantised_linear(kDim, 3 * kDim, 10 * layer + 6);
  }
  return network;
}

/// Networks with windows see an overview of 3x4 patches beside any picture.
inline TokenGrid make_grid(const Network& network, std::int64_t rows, std::int64_t columns) {
  if (!network.window) return {network.num_prefix, rows, columns};
  return {network.num_prefix, rows, columns, 3, 4};
}

inline ImageGeometry make_geometry(const Network& network, const TokenGrid& grid) {
  ImageGeometry geometry;
  geometry.grid = grid;
  geometry.prefix = random_values(static_cast<std::size_t>(network.num_prefix * kDim), 1, 20);
  geometry.order = token_order(grid, network.window.value_or(GridExtent{grid.rows, grid.columns}));
  geometry.position =
      random_values(static_cast<std::size_t>(grid.num_image_tokens() * kDim), 1, 21);
  MixingSite site = site_of(network, geometry);
  // Whatever the processor multiplies fastest.
  if (network.is_quantised()) site.products = kernels::softmax_attention::Products::bytes;
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    geometry.layers.push_back({network.mixing(layer, site), {}, {}});
  return geometry;
}

inline void run(const AnyExecutor& any, const AlignedBuffer<float>& images, std::int64_t count,
                std::vector<float>& logits, const Observers& observers = {}) {
  std::visit(
      [&](const auto& executor) { executor->run(images.data(), count, logits.data(), observers); },
      any);
}

/// (count, 3, H, W): the same in every call.
inline auto random_images(const TokenGrid& grid, std::int64_t count) {
  return random_values(static_cast<std::size_t>(count * 3 * grid.num_patches() * kPatch * kPatch),
                       1, 30);
}

inline std::vector<float> logits_of(const Network& network, std::int64_t rows, std::int64_t columns,
                                    std::int64_t batch, std::int64_t count, int threads,
                                    const ExecutionOptions& options = {}) {
  kernels::device::ThreadTeam team(threads);
  const TokenGrid grid = make_grid(network, rows, columns);
  const AnyExecutor executor =
      make_executor(network, make_geometry(network, grid), batch, team, options);
  const auto images = random_images(grid, batch);
  std::vector<float> logits(static_cast<std::size_t>(count * kClasses), NAN);
  run(executor, images, count, logits);
  std::vector<float> again(logits.size());
  run(executor, images, count, again);
  EXPECT_EQ(logits, again) << "the same call, the same bits";
  return logits;
}

inline void expect_near(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

/// As on a machine with so many processors. `rehearsal` is of that run alone.
inline std::vector<float> rehearsed_logits_of(const Network& network, std::int64_t rows,
                                              std::int64_t columns, std::int64_t count, int threads,
                                              kernels::device::Rehearsal& rehearsal,
                                              const ExecutionOptions& options = {},
                                              const Observers& observers = {}) {
  kernels::device::ThreadTeam team(threads, rehearsal);
  const TokenGrid grid = make_grid(network, rows, columns);
  const AnyExecutor executor =
      make_executor(network, make_geometry(network, grid), count, team, options);
  const auto images = random_images(grid, count);
  std::vector<float> logits(static_cast<std::size_t>(count * kClasses), NAN);
  rehearsal.clear();
  run(executor, images, count, logits, observers);
  return logits;
}

/// The prefix waits for the patches in windows: its products are one thread's, cut by outputs alone, or cut with
/// all others. Expects the same bits of logits and of all tokens that leave a block, and returns the logits.
/// `network` has windows and no softmax layers.
inline std::vector<float> expect_same_bits_however_the_prefix_is_cut(const Network& network,
                                                                     std::int64_t rows,
                                                                     std::int64_t columns,
                                                                     std::int64_t images,
                                                                     int threads) {
  const auto depth = static_cast<std::int64_t>(network.blocks.size());
  const std::int64_t of_image = depth * make_grid(network, rows, columns).num_tokens() * kDim;
  std::vector<float> tokens(static_cast<std::size_t>(images * of_image));
  TokenTrace trace;
  for (std::int64_t layer = 1; layer <= depth; ++layer) trace.layers.push_back(layer);
  trace.tokens = tokens.data();
  Observers observers;
  observers.trace = &trace;
  kernels::device::Rehearsal rehearsal;
  std::vector<float> logits;
  const auto of = [&](int team, bool splits, bool splits_prefix) {
    std::ranges::fill(tokens, 0.0F);  // behind the last block only tokens with a query are written
    logits = rehearsed_logits_of(
        network, rows, columns, images, team, rehearsal,
        {.fixed_tiles = true, .splits = splits, .splits_prefix = splits_prefix}, observers);
    std::vector<float> found = logits;
    found.insert(found.end(), tokens.begin(), tokens.end());
    return found;
  };
  const std::vector<float> one = of(1, false, false);
  const std::size_t passes = rehearsal.size();
  EXPECT_TRUE(std::ranges::all_of(one, [](float value) { return std::isfinite(value); }));
  EXPECT_TRUE(of(threads, false, false) == one) << "by tiles";
  EXPECT_EQ(rehearsal.size(), passes);
  EXPECT_TRUE(of(threads, false, true) == one) << "the prefix by outputs";
  const std::size_t of_prefix = rehearsal.size();
  EXPECT_GT(of_prefix, passes);
  EXPECT_TRUE(of(threads, true, true) == one) << "all by outputs";
  EXPECT_GT(rehearsal.size(), of_prefix);
  return logits;
}

}  // namespace executor_test
}  // namespace hydrascope::model::inference
