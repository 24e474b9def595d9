// Attention with linear biases (Press et al. 2022, ALiBi, arXiv 2108.12409) by the Euclidean distance
// of patches (Fuller et al. 2023, CROMA, arXiv 2311.00566):
//   s_ij = q_i . k_j / sqrt(d) - strength m_h |offset_ij|
// m_h = 2^(-8 h / H), h = 1 .. H, for H heads, a power of two. Any other H has the slopes of the
// next lower power, then every other slope of its double. Prefix tokens are at distance 0 from all.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

const NumberOption kAlibiStrength("strength", "1", 0, 1000, "times every slope; 0: softmax");

std::vector<double> alibi_slopes(std::int64_t num_heads) {
  const auto of_power = [](std::uint64_t heads, std::uint64_t h) {
    return std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads));
  };
  const std::uint64_t lower = std::bit_floor(static_cast<std::uint64_t>(num_heads));
  std::vector<double> slopes;
  for (std::uint64_t h = 1; h <= lower; ++h) slopes.push_back(of_power(lower, h));
  for (std::uint64_t h = 1; std::cmp_less(slopes.size(), num_heads); h += 2)
    slopes.push_back(of_power(2 * lower, h));
  return slopes;
}

class Alibi final : public PositionRule {
 public:
  explicit Alibi(const TokenMixerArguments& arguments)
      : slopes_(at::tensor(alibi_slopes(arguments.num_heads), at::kDouble) *
                kAlibiStrength(arguments.options)) {}

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const at::Tensor slope = slopes_.narrow(0, pairs.first_head, q.size(2)).to(q.scalar_type());
    const at::Tensor bias =
        distances(pairs, q.scalar_type()).unsqueeze(1) * slope.view({1, -1, 1, 1});
    return scaled_products(q, k) - bias.to(q.device());
  }

 private:
  at::Tensor slopes_;  ///< (H) double
};

const PositionRegistration kAlibi({
    .name = "alibi",
    .summary = "scores minus the distance of the patches, by a slope of each head",
    .citation = "Press et al. 2022, Train Short, Test Long, arXiv 2108.12409; in two dimensions "
                "Fuller et al. 2023, CROMA, arXiv 2311.00566",
    .scores = "s_ij = q_i . k_j / sqrt(d) - strength m_h |offset_ij|",
    .options = {kAlibiStrength},
    .cost =
        [](const MixerSize& size, const MechanismOptions&, double pairs) {
          return 2 * pairs *
                 static_cast<double>(size.num_heads);  // a slope times a distance, added
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<Alibi>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
