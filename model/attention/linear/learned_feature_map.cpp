#include "model/attention/linear/learned_feature_map.h"

#include "kernels/number_text.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// The network's options; functions, because entries are made before main in any order of files.
const IntegerOption& width_option() {
  static const IntegerOption option("width", 0, 0, 4096, "columns d' of the map; 0 = the head's d");
  return option;
}
const SwitchOption& share_option() {
  static const SwitchOption option("share_qk", false, "one map for queries and keys");
  return option;
}
const SwitchOption& per_head_option() {
  static const SwitchOption option("per_head", true, "a map for every head, or one for all");
  return option;
}
const SwitchOption& bias_option() {
  static const SwitchOption option("bias", true, "u = x W + b, or u = x W");
  return option;
}

/// Shape of the network.
struct LearnedMapSettings {
  LearnedMapSettings(const MechanismOptions& options, std::int64_t head_dim)
      : width(width_option()(options)),
        share_qk(share_option()(options)),
        per_head(per_head_option()(options)),
        bias(bias_option()(options)) {
    if (width == 0) width = head_dim;
  }

  std::int64_t width;  ///< d', the columns of W
  bool share_qk;       ///< one network for q and k
  bool per_head;       ///< W (H, d, d') or (d, d')
  bool bias;
};

Tensor initial_weight(std::int64_t num_heads, std::int64_t head_dim,
                      const LearnedMapSettings& settings, double noise) {
  const std::int64_t width = settings.width;
  Tensor weight = at::eye(head_dim, width);
  if (settings.per_head) weight = weight.repeat({num_heads, 1, 1});
  if (width > head_dim) {
    weight.narrow(-1, head_dim, width - head_dim)
        .normal_(0, std::sqrt(2.0 / static_cast<double>(head_dim)));
  }
  if (noise > 0) weight = weight + noise * at::randn_like(weight);
  return weight;
}

/// Registers W and b as `prefix`.weight and `prefix`.bias.
HeadNetwork add_network(const TokenMixerArguments& arguments, const std::string& prefix,
                        const LearnedMapSettings& settings, double noise) {
  HeadNetwork network;
  network.weight = arguments.add_parameter(
      prefix + ".weight", initial_weight(arguments.num_heads, arguments.head_dim, settings, noise));
  if (settings.bias) {
    network.bias = arguments.add_parameter(
        prefix + ".bias", settings.per_head ? at::zeros({arguments.num_heads, settings.width})
                                            : at::zeros({settings.width}));
  }
  return network;
}

}  // namespace

MechanismEntry learned_mechanism(
    MechanismEntry entry, double noise,
    std::function<kernels::linear_attention::Feature(const MechanismOptions&)> feature) {
  for (const MechanismOption& option : std::vector<MechanismOption>{
           width_option(), share_option(), per_head_option(), bias_option()}) {
    entry.options.push_back(option);
  }
  const std::string initialisation =
      noise == 0 ? "identity" : "identity plus normal noise (" + shortest_number(noise) + ")";
  const std::string weight = "(H, d, d'), or (d, d') with per_head=off";
  const std::string bias = "(H, d'), or (d') with per_head=off";
  entry.parameters = {
      {"feature_map.{q,k}.weight", weight, initialisation},
      {"feature_map.{q,k}.bias", bias + "; not with bias=off", "zeros"},
      {"feature_map.weight", weight + "; instead, with share_qk=on", initialisation},
      {"feature_map.bias", bias + "; instead, with share_qk=on", "zeros"}};
  entry.added_elements = [](const MixerSize& size, const MechanismOptions& options) {
    const LearnedMapSettings settings(options, size.head_dim());
    const double networks =
        (settings.share_qk ? 1 : 2) * (settings.per_head ? static_cast<double>(size.num_heads) : 1);
    return networks * static_cast<double>(settings.width) *
           (static_cast<double>(size.head_dim()) + (settings.bias ? 1 : 0));
  };
  return linear_mechanism(
      std::move(entry),
      {.map =
           [=](const TokenMixerArguments& arguments) {
             const LearnedMapSettings settings(arguments.options, arguments.head_dim);
             const auto add = [&](const char* prefix) {
               return add_network(arguments, prefix, settings, noise);
             };
             FusedFeature map{feature(arguments.options)};
             map.query = add(settings.share_qk ? "feature_map" : "feature_map.q");
             map.key = settings.share_qk ? map.query : add("feature_map.k");
             return kernel_map(std::move(map));
           },
       .feature_dim =
           [=](const MixerSize& size, const MechanismOptions& options) {
             const LearnedMapSettings settings(options, size.head_dim());
             return static_cast<double>(
                 kernels::linear_attention::feature_dim(feature(options), settings.width));
           },
       .map_multiply_adds =
           [](const MixerSize& size, const MechanismOptions& options) {
             return 2 * token_elements(size) *
                    static_cast<double>(LearnedMapSettings(options, size.head_dim()).width);
           }});
}

}  // namespace hydrascope::model
