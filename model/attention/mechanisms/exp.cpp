// Linear attention with phi_f(x) = exp(t x_f) (Zhang et al. 2024, arXiv 2402.04347, section 3.1):
// spiky for t = 2, not monotone in q.k. F = d; the exponents are stabilised from both sides, so no
// eps.
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class ExpMap : public FeatureMap {
 public:
  explicit ExpMap(double t) : t_(t) {}
  [[nodiscard]] Values values() const override { return Values::logarithms; }
  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    return x * t_;
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    const HeadNetwork scaled{{}, {}, t_};
    return FusedFeature{kernels::linear_attention::Feature::exp, 0, scaled, scaled};
  }

 private:
  double t_;
};

const MechanismRegistration kExp(with_local_term({
    .name = "exp",
    .aliases = {"exp_t"},
    .summary = "linear attention with phi = exp(t x), O(N D d)",
    .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 3",
    .options = {number_option("t", "1", 0.01, 100, "inverse temperature; the paper uses 1 and 2"),
                form_option()},
    .map_definition = "A_ij = sum_f exp(t q_if + t k_jf), rows normalised",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec&) {
          return linear_cost(size, static_cast<double>(size.head_dim()), 0);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions options(arguments.spec);
      return std::make_unique<LinearMixer>(c10::make_intrusive<ExpMap>(options.number("t")),
                                           Normaliser{}, is_causal(options));
    },
}));

}  // namespace
}  // namespace hydrascope::model
