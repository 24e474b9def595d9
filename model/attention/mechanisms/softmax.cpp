// Softmax attention, the transformer's own (Vaswani et al. 2017, arXiv 1706.03762, equation 1):
//   A_h = softmax(q_h k_h^T / sqrt(d))   (N x N)        y_h = A_h v_h
// Fused: LibTorch's scaled_dot_product_attention, which never stores A. Reference: the formula as
// it stands, 4 B H N^2 bytes for A in float32. Rows of A are non-negative and sum to one.
// logit_scale=log multiplies the scores of larger pictures by `log_scale` (token_scale.h).
#include "model/attention/attention.h"
#include "model/attention/token_scale.h"
#include "model/registry/mechanisms.h"

#include <cmath>

namespace hydrascope::model {
namespace {

const ChoiceOption<bool> kLogScale(
    "logit_scale", {{"none", false}, {"log", true}},
    "scores of a query that sees all tokens times ln N / ln N_train, at least 1");

class SoftmaxMixer : public TokenMixer {
 public:
  explicit SoftmaxMixer(const TokenMixerArguments& arguments)
      : training_(arguments.training_grid), log_scale_(kLogScale(arguments.options)) {}

  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override {
    if (kernels != Kernels::reference) {
      const double scale = query_scale(grid);
      return merge_heads(at::scaled_dot_product_attention(scale == 1 ? q : q * scale, k, v));
    }
    const torch::Tensor map = attention_rows(q, k, grid, 0, q.size(2));
    return merge_heads(map.matmul(v.to(map.scalar_type()))).to(v.scalar_type());
  }

  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override {
    const double scale = query_scale(grid) / std::sqrt(static_cast<double>(q.size(-1)));
    const torch::Tensor queries = to_compute_type(q.narrow(2, first, count)) * scale;
    return queries.matmul(to_compute_type(k).transpose(-2, -1)).softmax(-1);
  }

  [[nodiscard]] FusedMixing fused() const override { return FusedSoftmax{}; }
  [[nodiscard]] double query_scale(const TokenGrid& grid) const override {
    return log_scale_ ? log_scale(training_, grid) : 1;
  }

 private:
  TokenGrid training_;
  bool log_scale_;
};

const MechanismRegistration kSoftmax({
    .name = "softmax",
    .aliases = {"msa", "sdpa"},
    .summary = "multi-head softmax attention, O(N^2 D)",
    .citation = "Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762",
    .options = {kLogScale},
    .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)), one N x N matrix per head",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .quadratic = true,
    .takes_positions = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions&) {
          const auto n = static_cast<double>(size.num_tokens());
          const auto d = static_cast<double>(size.embed_dim);
          return MixerCost{4 * n * n * d, 4 * n * d * static_cast<double>(size.bytes_per_element)};
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<SoftmaxMixer>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
