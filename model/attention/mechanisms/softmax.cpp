// Softmax attention, the transformer's own (Vaswani et al. 2017, arXiv 1706.03762, equation 1):
//   A_h = softmax(q_h k_h^T / sqrt(d))   (N x N)        y_h = A_h v_h
// Fused: LibTorch's scaled_dot_product_attention, which never stores A. Reference: the formula as
// it stands, 4 B H N^2 bytes for A in float32. Rows of A are non-negative and sum to one.
// logit_scale=log multiplies the scores of larger pictures by `log_scale` (token_scale.h). A position
// rule (positions/position_rule.h) may change the scores; rows are then made in pieces, unless it turns
// q and k alone.
#include "model/attention/attention.h"
#include "model/attention/softmax_form.h"
#include "model/attention/token_scale.h"
#include "model/registry/mechanisms.h"

#include <cmath>
#include <optional>

namespace hydrascope::model {
namespace {

const ChoiceOption<bool> kLogScale(
    "logit_scale", {{"none", false}, {"log", true}},
    "scores of a query that sees all tokens times ln N / ln N_train, at least 1");

class SoftmaxMixer : public TokenMixer {
 public:
  explicit SoftmaxMixer(const TokenMixerArguments& arguments)
      : training_(arguments.training_grid),
        log_scale_(kLogScale(arguments.options)),
        position_(arguments.position) {}

  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override {
    const bool changes_scores = position_ && position_->changes_scores();
    if (kernels != Kernels::reference && !changes_scores) {
      const double scale = query_scale(grid);
      const torch::Tensor queries = turned_by(position_.get(), q, grid);
      return merge_heads(at::scaled_dot_product_attention(scale == 1 ? queries : queries * scale,
                                                          turned_by(position_.get(), k, grid), v));
    }
    if (!changes_scores) return mix_rows(q, k, v, grid, 0, q.size(2));
    return mix_by_rows(q, k, v, grid);
  }

  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override {
    if (position_) {
      const torch::Tensor scores = position_->score_rows(q.narrow(2, first, count), k, grid, first);
      return (scores * query_scale(grid)).softmax(-1);
    }
    const double scale = query_scale(grid) / std::sqrt(static_cast<double>(q.size(-1)));
    const torch::Tensor queries = to_compute_type(q.narrow(2, first, count)) * scale;
    return queries.matmul(to_compute_type(k).transpose(-2, -1)).softmax(-1);
  }

  torch::Tensor mix_beside(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const TokenGrid& grid, const OtherTokens& others) override {
    const torch::Tensor keys = at::cat({others.k, k}, 2);
    std::optional<torch::Tensor> offset;
    if (others.offset.defined()) {
      offset = at::constant_pad_nd(others.offset.to(q.scalar_type()), {0, k.size(2)})
                   .view({1, 1, 1, keys.size(2)});
    }
    return merge_heads(at::scaled_dot_product_attention(q * query_scale(grid), keys,
                                                        at::cat({others.v, v}, 2), offset));
  }

  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override {
    return std::make_unique<SoftmaxForm>(
        [this](const TokenGrid& grid) { return query_scale(grid); });
  }
  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }

 private:
  [[nodiscard]] double query_scale(const TokenGrid& grid) const {
    return log_scale_ ? log_scale(training_, grid) : 1;
  }

  TokenGrid training_;
  bool log_scale_;
  std::shared_ptr<const PositionRule> position_;
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
    .takes_other_tokens = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions&) {
          const auto n = static_cast<double>(size.num_tokens());
          const auto d = static_cast<double>(size.embed_dim);
          return MixerCost{4 * n * n * d, 4 * n * d * static_cast<double>(size.bytes_per_element),
                           n * n};
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<SoftmaxMixer>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
