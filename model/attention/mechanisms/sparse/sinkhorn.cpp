// Sparse Sinkhorn attention (Tay et al. 2020, arXiv 2002.11296, sections 3 and 4) on the patch grid: a
// patch sees its own tile, one that sorting puts in its place, and the prefix tokens, which see all.
//   R_tu = q_t W . k_u / (sqrt(d) temperature) of the tiles' means, W (d, d) of each head; R_tt = -inf
//   S = e^R after `iterations` times R <- R - ln sum_t e^R and R <- R - ln sum_u e^R
//   k'_t = sum_u S_tu k_u, place by place, and v' alike; one softmax is over own and sorted keys
// The paper's network gives R for a fixed number of blocks; this R serves any number. A tile sees
// itself and is not sorted to itself: one tile, or two of one size, are softmax. Tiles are the
// windows of window.cpp. A rule turns keys before sorting; its scores take them as prefix tokens.
#include "kernels/error.h"
#include "model/attention/sparse/tile_pattern.h"
#include "model/attention/sparse/tile_sorting.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <limits>
#include <memory>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

const ExtentOption kSortedTile("tile", "patches of a tile, at most; 0: the training grid");
const IntegerOption kBalancings("iterations", 8, 1, 64, "normalisations of columns and rows");
const NumberOption kTemperature("temperature", "0.75", 0.001, 1000, "small: tiles are permuted");

/// Patches that see their tile and the tile's `num_more` keys among the keys behind all tokens.
std::unique_ptr<KeyPattern> own_tiles(const GridExtent& size, const TokenGrid& grid = {},
                                      std::int64_t num_more = 0) {
  return tile_pattern(size, [=](const Tiles& tiles) -> KeysOfTile {
    return [=, &tiles](std::int64_t t) {
      std::vector<std::int64_t> keys = tiles.patches(t);
      for (std::int64_t place = 0; place < num_more; ++place)
        keys.push_back(grid.num_image_tokens() + t * num_more + place);
      return keys;
    };
  });
}

class SinkhornMixer final : public TokenMixer {
 public:
  explicit SinkhornMixer(const TokenMixerArguments& arguments)
      : size_(kSortedTile(arguments.options, arguments.training_grid)),
        iterations_(kBalancings(arguments.options)),
        temperature_(kTemperature(arguments.options)),
        position_(arguments.position),
        weight_(arguments.add_parameter(
            "sort.weight", at::eye(arguments.head_dim).repeat({arguments.num_heads, 1, 1}))) {
    if (position_ && position_->adds_values())
      throw Error(ErrorCode::invalid_argument,
                  "sinkhorn's sorted values lie nowhere: no rule can add to them", "`rel_pos`");
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    if (kernels == Kernels::reference || grid.num_patches() == 0) return mix_by_rows(q, k, v, grid);
    const Tensor queries = turned_by(position(), q, grid);
    const Tensor keys = turned_by(position(), k, grid);
    const TileSorting sorting = sorting_of(queries, keys, grid);
    const auto with_sorted = [&](const Tensor& x) {
      return at::cat({x, sorting.sorted(x, grid)}, 2).transpose(1, 2);
    };
    const auto pattern = own_tiles(size_, grid, sorting.patches.size(1));
    const Tensor patches =
        mix_patches(queries.transpose(1, 2), with_sorted(keys), with_sorted(v), grid,
                    grid.num_prefix, image_passes(*pattern, grid), position())
            .flatten(2);
    if (grid.num_prefix == 0) return patches;
    return at::cat({mix_rows(q, k, v, grid, 0, grid.num_prefix), patches}, 1);
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    const Tensor queries = turned_by(position(), q, grid);
    const Tensor keys = turned_by(position(), to_compute_type(k), grid);
    const TileSorting sorting = sorting_of(queries, keys, grid);
    const Tensor all_keys = at::cat({keys, sorting.sorted(keys, grid)}, 2);
    ScoredPairs scored{position(), pairs_of_rows(grid, first, count)};
    scored.pairs.keys = at::arange(all_keys.size(2), at::kLong).unsqueeze(0);
    scored.pairs.keys.slice(1, grid.num_tokens()).fill_(-1);
    const Tensor scores =
        scored.scores(queries.narrow(2, first, count).unsqueeze(1), all_keys.unsqueeze(1));
    const Tensor own = seen_rows(*own_tiles(size_), grid, first, count);
    const Tensor sees = at::cat({own, sorting.seen_rows(grid, first, count)}, 1);
    const Tensor weights = scores.squeeze(1)
                               .masked_fill(sees.logical_not().to(q.device()),
                                            -std::numeric_limits<double>::infinity())
                               .softmax(-1);
    return weights.slice(3, 0, grid.num_tokens()) +
           sorting.unsorted(weights.slice(3, grid.num_tokens()), grid);
  }

  [[nodiscard]] bool needs_all_queries() const override { return true; }
  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }

 private:
  [[nodiscard]] TileSorting sorting_of(const Tensor& q, const Tensor& k,
                                       const TokenGrid& grid) const {
    return sort_tiles(q, k, weight_, grid, size_, iterations_, temperature_);
  }

  GridExtent size_;
  std::int64_t iterations_;
  double temperature_;
  std::shared_ptr<const PositionRule> position_;
  Tensor weight_;  ///< W (H, d, d)
};

MixerCost sinkhorn_cost(const MixerSize& size, const MechanismOptions& options) {
  const GridExtent extent = kSortedTile(options, size.training_grid);
  std::vector<HeadPattern> heads;
  heads.push_back({size.num_heads, own_tiles(extent)});
  MixerCost cost = sparse_cost(size, heads);
  const auto tiles = static_cast<double>(Tiles(size.grid, extent).count());
  if (tiles < 2) return cost;
  const auto patches = static_cast<double>(size.grid.num_patches());
  // Pairs with sorted keys, and sums of k and of v over the tiles.
  cost.pairs += patches * patches / tiles;
  cost.flops += 4 * static_cast<double>(size.embed_dim) * patches * (patches / tiles + tiles);
  return cost;
}

const MechanismRegistration kSinkhorn(over_some_tokens({
    .name = "sinkhorn",
    .summary = "softmax attention over a tile and one that learned sorting puts in its place",
    .citation = "Tay et al. 2020, Sparse Sinkhorn Attention, arXiv 2002.11296",
    .options = {kSortedTile, kBalancings, kTemperature},
    .parameters = {{"sort.weight", "(H, d, d)", "identity"}},
    .map_definition =
        "A_h = softmax(q_h [k_h, S k_h]^T / sqrt(d)) over the query's tile, the sorted one, shared "
        "out by S, and the prefix tokens; rows of prefix tokens over all",
    .cost = sinkhorn_cost,
    .added_elements =
        [](const MixerSize& size, const MechanismOptions&) {
          return static_cast<double>(size.embed_dim * size.head_dim());
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<SinkhornMixer>(arguments);
    },
}));

}  // namespace
}  // namespace hydrascope::model
