#include "model/network_cost.h"

#include "model/attention/registry.h"

namespace hydrascope::model {

double gflops_per_image(const VitConfig& config, std::int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  const auto d = static_cast<double>(config.embed_dim);
  const double patches = n - static_cast<double>(config.num_prefix_tokens());
  double flops = 2 * patches * d *
                 static_cast<double>(config.in_chans * config.patch_size * config.patch_size);
  flops += 2 * d * static_cast<double>(config.num_classes) * (config.distilled ? 2 : 1);
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    const double projections =
        find_mechanism(config.attention_of(layer).mechanism).query_is_input ? 3 : 4;
    flops += 2 * n * d * d * (projections + 2 * config.mlp_ratio);
    flops += find_mechanism(config.attention_of(layer).mechanism)
                 .cost({tokens, config.embed_dim, config.num_heads, 4}, config.attention_of(layer))
                 .flops;
  }
  return flops / 1e9;
}

}  // namespace hydrascope::model
