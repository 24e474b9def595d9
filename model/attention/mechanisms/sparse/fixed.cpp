// Sparse Transformer's fixed pattern (Child et al. 2019, Generating Long Sequences with Sparse
// Transformers, arXiv 1904.10509, section 4.3) on the patch grid: a patch sees its own tile and the
// summary patches of every tile, in which a layer sums the tile up for all others. The paper's
// summaries are the last c of a block's l positions, c / l from 1/16 to 1/4; here they are the
// patches nearest to a tile's centre. Tiles are the balanced windows of window.cpp.
//   combine=merged   both in every head: the paper's merged set
//           heads    the first half of the heads sees the tile, the others the summary patches
#include "model/attention/sparse/tile_pattern.h"
#include "model/registry/mechanisms.h"

#include <vector>

namespace hydrascope::model {
namespace {

const ExtentOption kFixedBlock("block", "patches of a tile, at most; 0: the training grid");
const IntegerOption kSummary("summary", 12, 1, 65536, "patches of every tile that all patches see");
const ChoiceOption<bool> kOfHalves("combine", {{"merged", false}, {"heads", true}},
                                   "tile and summaries in every head, or in half of them each");

std::vector<HeadPattern> fixed_heads(const MechanismOptions& options, const SparseLayer& layer) {
  const auto pattern = [&](bool with_tile, bool with_summary) {
    const auto keys_of = [=, summary = kSummary(options)](const Tiles& tiles) -> KeysOfTile {
      std::vector<std::vector<std::int64_t>> central;
      for (std::int64_t t = 0; t < tiles.count(); ++t)
        central.push_back(tiles.central_patches(t, summary));
      return [=, &tiles](std::int64_t t) {
        std::vector<std::int64_t> list;
        if (with_tile) list = tiles.patches(t);
        for (std::int64_t other = 0; other < tiles.count() && with_summary; ++other) {
          const std::vector<std::int64_t>& more = central[static_cast<std::size_t>(other)];
          if (other != t || !with_tile) list.insert(list.end(), more.begin(), more.end());
        }
        return list;
      };
    };
    return tile_pattern(kFixedBlock(options, layer.training_grid), keys_of);
  };
  std::vector<HeadPattern> heads;
  const std::int64_t half = (layer.num_heads + 1) / 2;
  const bool halves = kOfHalves(options);
  heads.push_back({halves ? half : layer.num_heads, pattern(true, !halves)});
  if (halves && half < layer.num_heads)
    heads.push_back({layer.num_heads - half, pattern(false, true)});
  return heads;
}

const MechanismRegistration kFixed(sparse_mechanism(
    {.name = "fixed",
     .aliases = {"sparse_fixed"},
     .summary = "softmax attention over the query's tile and a summary of all tiles",
     .citation = "Child et al. 2019, Generating Long Sequences with Sparse Transformers, arXiv "
                 "1904.10509",
     .options = {kFixedBlock, kSummary, kOfHalves},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the query's tile, the central "
                       "patches of all tiles and the prefix tokens, 0 elsewhere; rows of prefix "
                       "tokens over all"},
    fixed_heads));

}  // namespace
}  // namespace hydrascope::model
