#include "model/config/network_cost.h"

#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

/// FLOPs of a token's linear layers in a block: `query` and the products behind the mixing, or with keys
/// and values all of them.
double linear_flops(const VitConfig& config, double matrices_before) {
  const auto d = static_cast<double>(config.embed_dim);
  const double mlp = static_cast<double>(config.mlp_matrices()) * config.mlp_ratio;
  constexpr double kOfGates = 12;  // matrices of both gates
  const double gates = config.residual == Residual::gru ? kOfGates : 0;
  return 2 * d * d * (matrices_before + 1 + mlp + gates);
}

/// Matrices in front of a layer's mixing: queries, keys and values.
double matrices_of_qkv(const VitConfig& config, std::int64_t layer) {
  return find_mechanism(config.attention_of(layer).mechanism).query_is_input ? 2 : 3;
}

/// FLOPs of a layer's token mixing.
double mixing_flops(const VitConfig& config, const TokenGrid& grid, std::int64_t layer) {
  const MixerSize size{grid,  config.embed_dim, config.num_heads, 4, config.training_grid(),
                       layer, config.depth};
  const MixerCost mixing =
      find_mechanism(config.attention_of(layer).mechanism).cost(size, config.attention_of(layer));
  double flops = mixing.flops;
  if (const PositionSpec rule = config.rel_pos_of(layer); rule.rule != kNoRule)
    flops += find_position_rule(rule.rule).cost(size, position_options(rule), mixing.pairs);
  return flops;
}

}  // namespace

double gflops_per_image(const VitConfig& config, const TokenGrid& grid) {
  const auto tokens = static_cast<double>(grid.num_tokens());
  const auto d = static_cast<double>(config.embed_dim);
  const auto patches = static_cast<double>(grid.num_image_tokens());
  double flops = 2 * patches * d *
                 static_cast<double>(config.in_chans * config.patch_size * config.patch_size);
  // Attention pooling of one query: keys and values of all patches, and an MLP.
  if (config.global_pool == Pooling::map)
    flops += 2 * d * d * (2 * patches + 2 + 2 * config.mlp_ratio) + 4 * patches * d;
  flops += 2 * d * static_cast<double>(config.num_classes) * (config.distilled ? 2 : 1);
  for (std::int64_t number = 0; number < config.depth; ++number) {
    const std::int64_t layer = config.block_of(number);
    flops += tokens * linear_flops(config, matrices_of_qkv(config, layer)) +
             mixing_flops(config, grid, layer);
  }
  return flops / 1e9;
}

double gflops_left_out(const VitConfig& config, const TokenGrid& grid) {
  if (config.depth == 0 || config.global_pool != Pooling::token) return 0;
  const std::int64_t last = config.block_of(config.depth - 1);
  const auto tokens = static_cast<double>(grid.num_tokens());
  const auto idle = static_cast<double>(grid.num_tokens() -
                                        std::max<std::int64_t>(1, config.num_prefix_tokens()));
  const double query = find_mechanism(config.attention_of(last).mechanism).query_is_input ? 0 : 1;
  return (idle * linear_flops(config, query) + idle / tokens * mixing_flops(config, grid, last)) /
         1e9;
}

double block_weights(const VitConfig& config) {
  double flops = 0;  // of a token: two for each weight
  for (std::int64_t block = 0; block < std::min(config.depth, config.num_blocks()); ++block)
    flops += linear_flops(config, matrices_of_qkv(config, block));
  return flops / 2;
}

}  // namespace hydrascope::model
