#include "model/config/network_cost.h"

#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

namespace hydrascope::model {

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
  const double mlp = static_cast<double>(config.mlp_matrices()) * config.mlp_ratio;
  for (std::int64_t number = 0; number < config.depth; ++number) {
    const std::int64_t layer = config.block_of(number);
    const MechanismEntry& mechanism = find_mechanism(config.attention_of(layer).mechanism);
    const double qkv = mechanism.query_is_input ? 2 : 3;
    constexpr double kOfGates = 12;  // matrices of both gates
    const double gates = config.residual == Residual::gru ? kOfGates : 0;
    flops += 2 * d * d * tokens * (qkv + 1 + mlp + gates);
    const MixerSize size{grid,  config.embed_dim, config.num_heads, 4, config.training_grid(),
                         layer, config.depth};
    const MixerCost mixing = mechanism.cost(size, config.attention_of(layer));
    flops += mixing.flops;
    if (const PositionSpec rule = config.rel_pos_of(layer); rule.rule != kNoRule)
      flops += find_position_rule(rule.rule).cost(size, position_options(rule), mixing.pairs);
  }
  return flops / 1e9;
}

}  // namespace hydrascope::model
