// Second-order Taylor form of softmax (Zhang et al. 2024, arXiv 2402.04347, section 5): with x = q
// d^(-1/4) and the same for k, s = q.k / sqrt(d),
//   sim = 1 + s + s^2 / 2 = ((1 + s)^2 + 1) / 2 >= 1/2
// so the denominator is at least N / 2 and needs no eps. Features [1, x, x_i^2 / sqrt(2), x_i x_j
// (i < j)], F = 1 + d + d (d + 1) / 2. The paper's listing lacks the 1/2 (`taylor2_raw`:
// 1 + s + s^2) and keeps both x_i x_j and x_j x_i, which is the same function.
#include "model/attention/linear/linear_mechanism.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

/// `second` is the coefficient of s^2.
at::Tensor taylor2_features(const at::Tensor& input, double second) {
  const std::int64_t d = input.size(-1);
  const at::Tensor x = input * std::pow(static_cast<double>(d), -0.25);
  const at::Tensor one = at::ones_like(x.narrow(-1, 0, 1));
  const at::Tensor square = x.unsqueeze(-1) * x.unsqueeze(-2);  // (B, H, n, d, d)
  const at::Tensor pairs = at::triu_indices(d, d, /*offset=*/1, x.options().dtype(at::kLong));
  const at::Tensor flat = square.flatten(-2).index_select(-1, pairs[0] * d + pairs[1]);
  return at::cat({one, x, x * x * std::sqrt(second), flat * std::sqrt(2 * second)}, -1);
}

const ChoiceOption<double> kPolynomial(
    "polynomial", {{"taylor2", 0.5}, {"taylor2_raw", 1.0}},
    "1 + s + s^2 / 2, or the paper's listing taken literally, 1 + s + s^2");

const MechanismRegistration kTaylor2(linear_mechanism(
    {.name = "taylor2",
     .aliases = {"taylor"},
     .summary = "second-order Taylor form of softmax, O(N D d^2)",
     .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 5",
     .options = {kPolynomial},
     .former_options = {{"features", "symmetric"}},
     .map_definition = "A_ij = (1 + s_ij + s_ij^2 / 2), s = q_i.k_j / sqrt(d), rows normalised"},
    {.map =
         [](const TokenMixerArguments& arguments) {
           return formula_map(FeatureMap::Values::features,
                              [second = kPolynomial(arguments.options)](const at::Tensor& x) {
                                return taylor2_features(x, second);
                              });
         },
     .normaliser = {Normaliser::Rule::add_eps, 0},
     .feature_dim =
         [](const MixerSize& size, const MechanismOptions&) {
           const auto d = static_cast<double>(size.head_dim());
           return 1 + d + d * (d + 1) / 2;
         }}));

}  // namespace
}  // namespace hydrascope::model
