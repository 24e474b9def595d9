#include "model/attention/linear/linear_mechanism.h"

#include "model/attention/linear/linear_form.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

#include <utility>

namespace hydrascope::model {
namespace {

class LinearMixer final : public TokenMixer {
 public:
  LinearMixer(FeatureMapPtr map, const Normaliser& normaliser)
      : map_(std::move(map)), normaliser_(normaliser) {}

  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override {
    return merge_heads(kernels == Kernels::reference
                           ? linear_attention_reference(map_, q, k, v, grid, normaliser_)
                           : linear_attention(map_, q, k, v, grid, normaliser_));
  }

  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override {
    return linear_attention_rows(map_, q, k, grid, normaliser_, first, count);
  }

  torch::Tensor mix_state(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const TokenGrid& grid,
                          const std::function<void(MixerState&)>& change) override {
    return merge_heads(linear_attention_reference(map_, q, k, v, grid, normaliser_, change));
  }

  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override {
    const auto rule = kernel_rule(*map_, normaliser_);
    return rule ? std::make_unique<LinearForm>(map_, *rule) : nullptr;
  }

 private:
  FeatureMapPtr map_;
  Normaliser normaliser_;
};

MechanismEntry elementwise(MechanismEntry entry, FeatureMapPtr map) {
  entry.map_definition = "A_ij = phi(q_i).phi(k_j) / (phi(q_i).sum_t phi(k_t) + 1e-6)";
  return linear_mechanism(std::move(entry),
                          {.map = [=](const TokenMixerArguments&) { return map; }});
}

}  // namespace

MechanismEntry linear_mechanism(MechanismEntry entry, LinearParts parts) {
  entry.former_options.emplace("form", "bidirectional");
  const Normaliser::Rule rule = parts.normaliser.rule;
  entry.rows_sum_to_one = entry.normalised = rule != Normaliser::Rule::none;
  entry.non_negative = rule == Normaliser::Rule::add_eps;
  entry.has_state = true;
  entry.cost = [feature_dim = std::move(parts.feature_dim),
                map = std::move(parts.map_multiply_adds)](const MixerSize& size,
                                                          const MechanismOptions& options) {
    return linear_cost(
        size, feature_dim ? feature_dim(size, options) : static_cast<double>(size.head_dim()),
        map ? map(size, options) : 0);
  };
  entry.make = [map = std::move(parts.map), normaliser = parts.normaliser, eps = parts.eps](
                   const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
    Normaliser chosen = normaliser;
    if (eps != nullptr) chosen.eps = static_cast<float>((*eps)(arguments.options));
    return std::make_unique<LinearMixer>(map(arguments), chosen);
  };
  return with_local_term(std::move(entry));
}

MechanismEntry elementwise_mechanism(MechanismEntry entry, at::Tensor (*phi)(const at::Tensor&)) {
  return elementwise(std::move(entry), formula_map(FeatureMap::Values::features, phi));
}

MechanismEntry elementwise_mechanism(MechanismEntry entry,
                                     kernels::linear_attention::Feature feature) {
  return elementwise(std::move(entry), kernel_map({feature}));
}

MixerCost linear_cost(const MixerSize& size, double feature_dim, double map_multiply_adds) {
  const auto n = static_cast<double>(size.num_tokens());
  const auto d = static_cast<double>(size.embed_dim);
  const double state = static_cast<double>(size.num_heads) * feature_dim *
                       (static_cast<double>(size.head_dim()) + 1) * 4;
  return {2 * (2 * n * d * feature_dim + map_multiply_adds),
          4 * n * d * static_cast<double>(size.bytes_per_element) + state};
}

double token_elements(const MixerSize& size) {
  return static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
}

}  // namespace hydrascope::model
