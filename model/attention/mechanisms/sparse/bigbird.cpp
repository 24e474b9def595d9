// Big Bird (Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, arXiv 2007.14062,
// section 2) on the patch grid, in blocks as its implementation has it: the patches of a block see the
// blocks around it, as many others at random, and the prefix tokens, which are its global tokens.
// Draws are made from the seed, the layer and the block alone, so a picture of any size has its
// blocks. Blocks are the balanced windows of window.cpp, of the paper's 64 tokens.
#include "model/attention/sparse/split_mix.h"
#include "model/attention/sparse/tile_pattern.h"
#include "model/registry/mechanisms.h"

#include <cstdlib>
#include <vector>

namespace hydrascope::model {
namespace {

const IntegerOption kBigBirdBlock("block", 8, 1, 1024, "patches of a block along an axis, at most");
const IntegerOption kWindowBlocks(
    "window_blocks", 3, 1, 65535,
    "blocks around its own that a patch sees along an axis, made odd");
const IntegerOption kRandomBlocks("random_blocks", 3, 0, 65536, "blocks seen at random");
const ChoiceOption<bool> kOfHeads("random", {{"layer", false}, {"head", true}},
                                  "draws are those of a layer, or of each head");
const IntegerOption kBigBirdSeed("seed", 0, 0, 1000000000, "of the draws");

std::unique_ptr<KeyPattern> bigbird_pattern(const MechanismOptions& options, std::uint64_t seed) {
  const std::int64_t reach = kWindowBlocks(options) / 2;
  const std::int64_t draws = kRandomBlocks(options);
  const auto keys = [=](const Tiles& tiles, std::int64_t t) {
    const std::int64_t columns = tiles.extent().columns;
    std::vector<std::int64_t> blocks, others;
    for (std::int64_t block = 0; block < tiles.count(); ++block) {
      const bool near = std::abs(block / columns - t / columns) <= reach &&
                        std::abs(block % columns - t % columns) <= reach;
      (near ? blocks : others).push_back(block);
    }
    for (std::int64_t draw = 0; draw < draws && !others.empty(); ++draw) {
      const std::uint64_t random = seed_below(seed ^ static_cast<std::uint64_t>(t), draw);
      const auto chosen = others.begin() + static_cast<std::ptrdiff_t>(random % others.size());
      blocks.push_back(*chosen);
      others.erase(chosen);
    }
    std::vector<std::int64_t> list;
    for (const std::int64_t block : blocks) {
      const std::vector<std::int64_t> patches = tiles.patches(block);
      list.insert(list.end(), patches.begin(), patches.end());
    }
    return list;
  };
  const std::int64_t side = kBigBirdBlock(options);
  return tile_pattern({side, side}, [keys](const Tiles& tiles) -> KeysOfTile {
    return [&tiles, keys](std::int64_t t) { return keys(tiles, t); };
  });
}

std::vector<HeadPattern> bigbird_heads(const MechanismOptions& options, const SparseLayer& layer) {
  const std::uint64_t seed =
      seed_below(static_cast<std::uint64_t>(kBigBirdSeed(options)), layer.layer_index);
  std::vector<HeadPattern> heads;
  if (!kOfHeads(options)) {
    heads.push_back({layer.num_heads, bigbird_pattern(options, seed)});
    return heads;
  }
  for (std::int64_t head = 0; head < layer.num_heads; ++head)
    heads.push_back(
        {1, bigbird_pattern(options, split_mix(seed ^ static_cast<std::uint64_t>(head)))});
  return heads;
}

const MechanismRegistration kBigBird(sparse_mechanism(
    {.name = "bigbird",
     .aliases = {"big_bird"},
     .summary = "softmax attention over blocks around the query's and random ones, O(N D w^2)",
     .citation = "Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, arXiv "
                 "2007.14062",
     .options = {kBigBirdBlock, kWindowBlocks, kRandomBlocks, kOfHeads, kBigBirdSeed},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the blocks around the query's, its "
                       "random blocks and the prefix tokens, 0 elsewhere; rows of prefix tokens "
                       "over all"},
    bigbird_heads));

}  // namespace
}  // namespace hydrascope::model
