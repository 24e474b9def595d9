// Distance-aware attention (Wu et al. 2021, DA-Transformer, arXiv 2010.06925, equations 2 to 4): scores
// times a learned sigmoid of the distance in patches,
//   s_ij = relu(q_i . k_j) f(alpha_h |offset_ij|; beta_h) / sqrt(d),
//   f(x; b) = (1 + e^b) / (1 + e^(b - x))
// f(0) = 1, f falls towards 0 for negative alpha and rises to 1 + e^b for positive. Pairs with a prefix
// token are at distance 0. positive=off leaves out the ReLU: with alpha = 0 that is softmax.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

const SwitchOption kDaPositive("positive", true, "negative products count as 0, as published");

class DistanceAware final : public PositionRule {
 public:
  explicit DistanceAware(const TokenMixerArguments& arguments)
      : positive_(kDaPositive(arguments.options)),
        alpha_(arguments.add_parameter("da.alpha", at::zeros({arguments.num_heads}))),
        beta_(arguments.add_parameter("da.beta", at::zeros({arguments.num_heads}))) {}

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const auto of_heads = [&](const at::Tensor& x) {
      return x.narrow(0, pairs.first_head, q.size(2)).to(q.scalar_type()).view({1, -1, 1, 1});
    };
    const at::Tensor distance = distances(pairs, q.scalar_type()).to(q.device()).unsqueeze(1);
    const at::Tensor beta = of_heads(beta_);
    const at::Tensor factor = (1 + beta.exp()) * (of_heads(alpha_) * distance - beta).sigmoid();
    const at::Tensor products = scaled_products(q, k);
    return (positive_ ? products.relu() : products) * factor;
  }

 private:
  bool positive_;
  at::Tensor alpha_;  ///< (H)
  at::Tensor beta_;   ///< (H)
};

const PositionRegistration kDistanceAware({
    .name = "da",
    .aliases = {"da_transformer"},
    .summary = "positive scores times a learned sigmoid of the distance",
    .citation = "Wu et al. 2021, DA-Transformer: Distance-aware Transformer, arXiv 2010.06925",
    .scores =
        "s_ij = relu(q_i . k_j) f_h(|offset_ij|) / sqrt(d), f_h(x) = (1 + e^b) / (1 + e^(b - a x))",
    .options = {kDaPositive},
    .parameters = {{"da.alpha", "(H)", "zeros"}, {"da.beta", "(H)", "zeros"}},
    .cost =
        [](const MixerSize& size, const MechanismOptions& options, double pairs) {
          // The distance's factor is a product, a difference, a sigmoid and a product.
          return (kDaPositive(options) ? 6 : 5) * pairs * static_cast<double>(size.num_heads);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<DistanceAware>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
