// Second-order Taylor form of softmax (Zhang et al. 2024, arXiv 2402.04347, section 5): with x = q
// d^(-1/4) and the same for k, s = q.k / sqrt(d),
//   sim = 1 + s + s^2 / 2 = ((1 + s)^2 + 1) / 2 >= 1/2
// so the denominator is at least N / 2 and needs no eps. Features [1, x, x_i^2 / sqrt(2), x_i x_j
// (i < j)], F = 1 + d + d (d + 1) / 2. The paper's listing lacks the 1/2 (`raw`: 1 + s + s^2),
// `full` keeps both x_i x_j and x_j x_i as the listing does; the function is the same.
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

class Taylor2Map : public FeatureMap {
 public:
  Taylor2Map(bool raw, bool full) : second_(raw ? 1.0 : 0.5), full_(full) {}

  at::Tensor operator()(const at::Tensor& input, Side, const TokenSpan&) const override {
    const std::int64_t d = input.size(-1);
    const at::Tensor x = input * std::pow(static_cast<double>(d), -0.25);
    const at::Tensor one = at::ones_like(x.narrow(-1, 0, 1));
    const at::Tensor square = x.unsqueeze(-1) * x.unsqueeze(-2);  // (B, H, n, d, d)
    if (full_) return at::cat({one, x, square.flatten(-2) * std::sqrt(second_)}, -1);
    const at::Tensor pairs = at::triu_indices(d, d, /*offset=*/1, x.options().dtype(at::kLong));
    const at::Tensor flat = square.flatten(-2).index_select(-1, pairs[0] * d + pairs[1]);
    return at::cat({one, x, x * x * std::sqrt(second_), flat * std::sqrt(2 * second_)}, -1);
  }

 private:
  double second_;  ///< coefficient of s^2
  bool full_;
};

const MechanismRegistration kTaylor2(with_local_term({
    .name = "taylor2",
    .aliases = {"taylor"},
    .summary = "second-order Taylor form of softmax, O(N D d^2)",
    .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 5",
    .options = {choice_option("polynomial", "taylor2", {"taylor2", "taylor2_raw"},
                              "1 + s + s^2 / 2, or the paper's listing taken literally, "
                              "1 + s + s^2"),
                choice_option("features", "symmetric", {"symmetric", "full"},
                              "each product once or twice; the same function"),
                form_option()},
    .map_definition = "A_ij = (1 + s_ij + s_ij^2 / 2), s = q_i.k_j / sqrt(d), rows normalised",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const auto d = static_cast<double>(size.head_dim());
          const bool full = MechanismOptions(spec).text("features") == "full";
          return linear_cost(size, 1 + d + (full ? d * d : d * (d + 1) / 2), 0);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions options(arguments.spec);
      const auto map = c10::make_intrusive<Taylor2Map>(options.text("polynomial") == "taylor2_raw",
                                                       options.text("features") == "full");
      return std::make_unique<LinearMixer>(map, Normaliser{Normaliser::Rule::add_eps, 0},
                                           is_causal(options));
    },
}));

}  // namespace
}  // namespace hydrascope::model
