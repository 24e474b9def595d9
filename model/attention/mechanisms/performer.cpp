// Performer, FAVOR+ (Choromanski et al. 2021, Rethinking Attention with Performers, arXiv
// 2009.14794, lemma 1): positive random features of exp(x.y), x = q d^(-1/4),
//   pos: phi(x) = M^(-1/2) exp(W x - |x|^2 / 2)
//   hyp: phi(x) = (2M)^(-1/2) [exp(W x), exp(-W x)] exp(-|x|^2 / 2)      (lower variance)
// W (M, d) has standard normal rows, orthogonal in blocks of d, drawn from a recorded seed and
// saved with the checkpoint. Constant factors, and exp(-|q|^2 / 2) on the queries, cancel. No
// constant is added to phi: the two-sided form of linear_attention needs none.
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"
#include "model/attention/random_projection.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

class PerformerMap : public FeatureMap {
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

const MechanismRegistration kPerformer(with_local_term({
    .name = "performer",
    .aliases = {"favor+", "favor"},
    .summary = "positive random features of the softmax kernel (FAVOR+), O(N D M)",
    .citation = "Choromanski et al. 2021, Rethinking Attention with Performers, arXiv 2009.14794",
    .options = {choice_option("variant", "hyp", {"hyp", "pos"},
                              "hyperbolic features, 2M of them, or the positive ones"),
                integer_option("features", 256, 1, 65536, "random directions M"),
                of_stored_tensors(choice_option("rows", "orthogonal", {"orthogonal", "independent"},
                                                "how the directions are drawn")),
                of_stored_tensors(integer_option("seed", 0, 0, 1'000'000'000, "of the directions")),
                form_option()},
    .parameters = {{"feature_map.projection", "(M, d), not trained",
                    "standard normal rows, orthogonal in blocks of d"}},
    .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), an unbiased estimate of "
                      "softmax's numerator and denominator",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const MechanismOptions chosen(spec);
          const auto directions = static_cast<double>(chosen.integer("features"));
          const double halves = chosen.text("variant") == "hyp" ? 2 : 1;
          const double map = 2 * static_cast<double>(size.num_tokens()) *
                             static_cast<double>(size.embed_dim) * directions;
          return linear_cost(size, halves * directions, map);
        },
    .added_elements =
        [](const MixerSize& size, const AttentionSpec& spec) {
          return static_cast<double>(MechanismOptions(spec).integer("features") * size.head_dim());
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions chosen(arguments.spec);
      const RowKind kind =
          chosen.text("rows") == "orthogonal" ? RowKind::orthogonal : RowKind::independent;
      const at::Tensor projection = arguments.add_buffer(
          "feature_map.projection",
          random_projection(chosen.integer("features"), arguments.head_dim, kind,
                            layer_seed(chosen.integer("seed"), arguments.layer_index)));
      return std::make_unique<LinearMixer>(
          c10::make_intrusive<PerformerMap>(projection, chosen.text("variant") == "hyp"),
          Normaliser{}, is_causal(chosen));
    },
}));

}  // namespace
}  // namespace hydrascope::model
