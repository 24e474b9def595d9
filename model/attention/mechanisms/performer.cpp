// Performer, FAVOR+ (Choromanski et al. 2021, Rethinking Attention with Performers, arXiv
// 2009.14794, lemma 1): positive random features of exp(x.y), x = q d^(-1/4),
//   pos: phi(x) = M^(-1/2) exp(W x - |x|^2 / 2)
//   hyp: phi(x) = (2M)^(-1/2) [exp(W x), exp(-W x)] exp(-|x|^2 / 2)      (lower variance)
// W (M, d) has standard normal rows, orthogonal in blocks of d, drawn from a recorded seed and
// saved with the checkpoint. Constant factors, and exp(-|q|^2 / 2) on the queries, cancel. No
// constant is added to phi: the two-sided form of linear_attention needs none.
#include "model/attention/linear/random_projection.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

namespace hydrascope::model {
namespace {

class PerformerMap final : public FeatureMap {
 public:
  PerformerMap(at::Tensor projection, bool hyperbolic)
      : projection_(std::move(projection)), hyperbolic_(hyperbolic) {}

  [[nodiscard]] Values values() const override { return Values::logarithms; }

  at::Tensor operator()(const at::Tensor& input, Side side, const TokenSpan&) const override {
    const at::Tensor x = input * std::pow(static_cast<double>(input.size(-1)), -0.25);
    const at::Tensor u = x.matmul(projection_.to(x.scalar_type()).t());
    const at::Tensor exponents = hyperbolic_ ? at::cat({u, -u}, -1) : u;
    return side == Side::query ? exponents : exponents - (x * x).sum(-1, /*keepdim=*/true) / 2;
  }

 private:
  at::Tensor projection_;  ///< (M, d)
  bool hyperbolic_;
};

const ChoiceOption<bool> kHyperbolic("variant", {{"hyp", true}, {"pos", false}},
                                     "hyperbolic features, 2M of them, or the positive ones");
const IntegerOption kPerformerFeatures("features", 256, 1, 65536, "random directions M");

const MechanismRegistration kPerformer(random_mechanism(
    {.name = "performer",
     .aliases = {"favor+", "favor"},
     .summary = "positive random features of the softmax kernel (FAVOR+), O(N D M)",
     .citation = "Choromanski et al. 2021, Rethinking Attention with Performers, arXiv 2009.14794",
     .options = {kHyperbolic, kPerformerFeatures},
     .map_definition =
         "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), an unbiased estimate of "
         "softmax's numerator and denominator"},
    kPerformerFeatures,
    [](const at::Tensor& projection, const MechanismOptions& options) -> FeatureMapPtr {
      return c10::make_intrusive<PerformerMap>(projection, kHyperbolic(options));
    },
    {.feature_dim = [](const MixerSize&, const MechanismOptions& options) {
      return (kHyperbolic(options) ? 2.0 : 1.0) * static_cast<double>(kPerformerFeatures(options));
    }}));

}  // namespace
}  // namespace hydrascope::model
