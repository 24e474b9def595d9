#include "model/attention/learned_feature_map.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
namespace {

using at::Tensor;

Tensor initial_weight(std::int64_t num_heads, std::int64_t head_dim,
                      const LearnedMapSettings& settings) {
  const std::int64_t width = settings.width;
  Tensor weight = at::eye(head_dim, width);
  if (settings.per_head) weight = weight.repeat({num_heads, 1, 1});
  if (width > head_dim) {
    weight.narrow(-1, head_dim, width - head_dim)
        .normal_(0, std::sqrt(2.0 / static_cast<double>(head_dim)));
  }
  if (settings.noise > 0) weight = weight + settings.noise * at::randn_like(weight);
  return weight;
}

}  // namespace

std::vector<MechanismOption> learned_map_options() {
  return {integer_option("width", 0, 0, 4096, "columns d' of the map; 0 = the head's d"),
          switch_option("share_qk", false, "one map for queries and keys"),
          switch_option("per_head", true, "a map for every head, or one for all"),
          switch_option("bias", true, "u = x W + b, or u = x W")};
}

LearnedMapSettings learned_map_settings(const MechanismOptions& options, std::int64_t head_dim) {
  const std::int64_t width = options.integer("width");
  return {width == 0 ? head_dim : width, options.on("share_qk"), options.on("per_head"),
          options.on("bias")};
}

std::vector<MechanismParameter> learned_map_parameters(const std::string& initialisation) {
  const std::string weight = "(H, d, d'), or (d, d') with per_head=off";
  const std::string bias = "(H, d'), or (d') with per_head=off";
  return {{"feature_map.{q,k}.weight", weight, initialisation},
          {"feature_map.{q,k}.bias", bias + "; not with bias=off", "zeros"},
          {"feature_map.weight", weight + "; instead, with share_qk=on", initialisation},
          {"feature_map.bias", bias + "; instead, with share_qk=on", "zeros"}};
}

LearnedFeatureMap::LearnedFeatureMap(const TokenMixerArguments& arguments,
                                     const LearnedMapSettings& settings)
    : shared_(settings.share_qk) {
  const auto add = [&](const std::string& prefix) {
    Network network;
    network.weight = arguments.add_parameter(
        prefix + ".weight", initial_weight(arguments.num_heads, arguments.head_dim, settings));
    if (settings.bias) {
      network.bias = arguments.add_parameter(
          prefix + ".bias", settings.per_head ? at::zeros({arguments.num_heads, settings.width})
                                              : at::zeros({settings.width}));
    }
    return network;
  };
  query_ = add(shared_ ? "feature_map" : "feature_map.q");
  key_ = shared_ ? query_ : add("feature_map.k");
}

std::vector<Tensor> LearnedFeatureMap::parameters() const {
  std::vector<Tensor> list;
  for (const Tensor& tensor : {query_.weight, query_.bias}) {
    if (tensor.defined()) list.push_back(tensor);
  }
  if (shared_) return list;
  for (const Tensor& tensor : {key_.weight, key_.bias}) {
    if (tensor.defined()) list.push_back(tensor);
  }
  return list;
}

Tensor LearnedFeatureMap::network(const Tensor& x, Side side) const {
  const Network& chosen = side == Side::query ? query_ : key_;
  const Tensor u = x.matmul(chosen.weight.to(x.scalar_type()));
  if (!chosen.bias.defined()) return u;
  return u + chosen.bias.to(x.scalar_type()).unsqueeze(-2);
}

double learned_map_elements(const MixerSize& size, const LearnedMapSettings& settings) {
  const double networks =
      (settings.share_qk ? 1 : 2) * (settings.per_head ? static_cast<double>(size.num_heads) : 1);
  return networks * static_cast<double>(settings.width) *
         (static_cast<double>(size.head_dim()) + (settings.bias ? 1 : 0));
}

double learned_map_multiply_adds(const MixerSize& size, const LearnedMapSettings& settings) {
  return 2 * static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim) *
         static_cast<double>(settings.width);
}

}  // namespace hydrascope::model
