#include "model/config/network_cost.h"

#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

namespace hydrascope::model {

double gflops_per_image(const VitConfig& config, const TokenGrid& grid,
                        const std::optional<DroppedTokens>& dropped) {
  const std::int64_t tokens = grid.num_tokens();
  const auto d = static_cast<double>(config.embed_dim);
  const auto patches = static_cast<double>(grid.num_image_tokens());
  double flops = 2 * patches * d *
                 static_cast<double>(config.in_chans * config.patch_size * config.patch_size);
  flops += 2 * d * static_cast<double>(config.num_classes) * (config.distilled ? 2 : 1);
  const double mlp = static_cast<double>(config.mlp_matrices()) * config.mlp_ratio;
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    const MechanismEntry& mechanism = find_mechanism(config.attention_of(layer).mechanism);
    const std::int64_t in = dropped && layer > dropped->layer ? dropped->left : tokens;
    const std::int64_t out = dropped && layer >= dropped->layer ? dropped->left : tokens;
    const double qkv = mechanism.query_is_input ? 2 : 3;
    flops += 2 * d * d * (static_cast<double>(in) * qkv + static_cast<double>(out) * (1 + mlp));
    // Tokens that are left of a grid lie in none; mechanisms that ask for one do not come there.
    const TokenGrid now = in == tokens ? grid : TokenGrid{grid.num_prefix, 1, in - grid.num_prefix};
    const MixerSize size{now,   config.embed_dim, config.num_heads, 4, config.training_grid(),
                         layer, config.depth};
    const MixerCost mixing = mechanism.cost(size, config.attention_of(layer));
    flops += mixing.flops;
    if (const PositionSpec rule = config.rel_pos_of(layer); rule.rule != kNoRule)
      flops += find_position_rule(rule.rule).cost(size, position_options(rule), mixing.pairs);
  }
  return flops / 1e9;
}

}  // namespace hydrascope::model
