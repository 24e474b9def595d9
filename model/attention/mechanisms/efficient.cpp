// Efficient Attention (Shen et al. 2021, arXiv 1812.01243, equation 4):
//   y = softmax_features(q) (softmax_tokens(k)^T v)
// The columns of softmax_tokens(k) are d global maps over the tokens, a query mixes them. Rows of
// A = rho_q rho_k^T sum to one without a denominator. A2-Nets' double attention (Chen et al. 2018,
// arXiv 1810.11579, equation 3) is the same equation.
#include "model/attention/attention.h"
#include "model/attention/linear/linear_mechanism.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class EfficientMixer final : public TokenMixer {
 public:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid&, Kernels) override {
    const torch::Tensor context = global_maps(k).transpose(-2, -1).matmul(to_compute_type(v));
    return merge_heads(to_compute_type(q).softmax(-1).matmul(context)).to(v.scalar_type());
  }

  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const TokenGrid&,
                               std::int64_t first, std::int64_t count) override {
    const torch::Tensor queries = to_compute_type(q.narrow(2, first, count));
    return queries.softmax(-1).matmul(global_maps(k).transpose(-2, -1));
  }

 private:
  /// rho_k (B, H, N, d); every column sums to one over the tokens.
  [[nodiscard]] static torch::Tensor global_maps(const torch::Tensor& k) {
    return to_compute_type(k).softmax(-2);
  }
};

const MechanismRegistration kEfficient({
    .name = "efficient",
    .aliases = {"efficient_attention", "a2"},
    .summary = "softmax of q over features times softmax of k over tokens, O(N D d)",
    .citation = "Shen et al. 2021, Efficient Attention: Attention with Linear Complexities, arXiv "
                "1812.01243",
    .former_options = {{"scale", "none"}},
    .map_definition = "A_ij = sum_f softmax_f(q_i) softmax_j(k_f)",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions&) {
          return linear_cost(size, static_cast<double>(size.head_dim()), 0);
        },
    .make = [](const TokenMixerArguments&) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<EfficientMixer>();
    },
});

}  // namespace
}  // namespace hydrascope::model
