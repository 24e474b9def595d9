#include "model/attention/linear_attention.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

LinearMixer::LinearMixer(FeatureMapPtr map, const Normaliser& normaliser, bool causal)
    : map_(std::move(map)), normaliser_(normaliser), causal_(causal) {}

torch::Tensor LinearMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const TokenGrid& grid, Kernels kernels) {
  if (causal_) {
    LinearState state;
    const auto attention =
        kernels == Kernels::reference ? causal_linear_attention_reference : causal_linear_attention;
    return merge_heads(attention(map_, q, k, v, grid, normaliser_, state));
  }
  return merge_heads(kernels == Kernels::reference
                         ? linear_attention_reference(map_, q, k, v, grid, normaliser_)
                         : linear_attention(map_, q, k, v, grid, normaliser_));
}

torch::Tensor LinearMixer::attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                                          const TokenGrid& grid, std::int64_t first,
                                          std::int64_t count) {
  if (!causal_) return linear_attention_rows(map_, q, k, grid, normaliser_, first, count);
  // A causal row is the row over the keys up to its own, so each has its own stable form.
  std::vector<torch::Tensor> rows;
  for (std::int64_t query = first; query < first + count; ++query) {
    const torch::Tensor seen =
        linear_attention_rows(map_, q, k.narrow(2, 0, query + 1), grid, normaliser_, query, 1);
    rows.push_back(at::constant_pad_nd(seen, {0, k.size(2) - query - 1}));
  }
  return at::cat(rows, 2);
}

FusedMixing LinearMixer::fused() const {
  const std::optional<FusedFeature> map = map_->fused();
  if (!map || causal_) return {};
  using kernels::linear_attention::Normaliser;
  switch (normaliser_.rule) {
    case model::Normaliser::Rule::add_eps:
      return FusedLinear{*map, Normaliser::add_eps, normaliser_.eps};
    case model::Normaliser::Rule::none: return FusedLinear{*map, Normaliser::none, 0};
    case model::Normaliser::Rule::signed_clamp: break;
  }
  return {};
}

MechanismOption form_option() {
  return choice_option("form", "bidirectional", {"bidirectional", "causal"},
                       "every token sees all tokens, or those up to itself");
}

bool is_causal(const MechanismOptions& options) { return options.text("form") == "causal"; }

MixerCost linear_cost(const MixerSize& size, double feature_dim, double map_multiply_adds) {
  const auto n = static_cast<double>(size.num_tokens());
  const auto d = static_cast<double>(size.embed_dim);
  const double state = static_cast<double>(size.num_heads) * feature_dim *
                       (static_cast<double>(size.head_dim()) + 1) * 4;
  return {2 * (2 * n * d * feature_dim + map_multiply_adds),
          4 * n * d * static_cast<double>(size.bytes_per_element) + state};
}

}  // namespace hydrascope::model
