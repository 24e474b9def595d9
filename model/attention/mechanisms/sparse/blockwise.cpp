// Blockwise attention (Qiu et al. 2019, Blockwise Self-Attention for Long Document Understanding,
// arXiv 1911.02972, equation 3) on the patch grid: the patches of tile t see tile pi_h(t) in head h,
// and the prefix tokens. pi_h is the identity in most heads, as the paper found best, and a cyclic
// shift of the tiles in row-major order by 1, 2, .. in the others. Tiles are the balanced windows of
// window.cpp.
#include "model/attention/sparse/tile_pattern.h"
#include "model/registry/mechanisms.h"

#include <algorithm>
#include <vector>

namespace hydrascope::model {
namespace {

const ExtentOption kTile("tile", "patches of a tile, at most; 0: the training grid");
const IntegerOption kIdentityHeads("identity_heads", 0, 0, 65536,
                                   "the first heads, which see their own tile; 0: two thirds");

std::vector<HeadPattern> blockwise_heads(const MechanismOptions& options,
                                         const SparseLayer& layer) {
  const GridExtent size = kTile(options, layer.training_grid);
  const auto shifted = [&](std::int64_t by) {
    return tile_pattern(size, [by](const Tiles& tiles) -> KeysOfTile {
      return [&tiles, by](std::int64_t t) { return tiles.patches((t + by) % tiles.count()); };
    });
  };
  const std::int64_t asked = kIdentityHeads(options);
  const std::int64_t own =
      asked == 0 ? (2 * layer.num_heads + 2) / 3 : std::min(asked, layer.num_heads);
  std::vector<HeadPattern> heads;
  heads.push_back({own, shifted(0)});
  for (std::int64_t head = own; head < layer.num_heads; ++head)
    heads.push_back({1, shifted(head - own + 1)});
  return heads;
}

const MechanismRegistration kBlockwise(sparse_mechanism(
    {.name = "blockwise",
     .aliases = {"blockbert"},
     .summary = "softmax attention within tiles, in some heads over another tile, O(N D w^2)",
     .citation = "Qiu et al. 2019, Blockwise Self-Attention for Long Document Understanding, arXiv "
                 "1911.02972",
     .options = {kTile, kIdentityHeads},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the head's tile for the query's "
                       "tile and the prefix tokens, 0 elsewhere; rows of prefix tokens over all"},
    blockwise_heads));

}  // namespace
}  // namespace hydrascope::model
