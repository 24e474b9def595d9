// Random feature attention (Peng et al. 2021, arXiv 2103.02143, equation 5): unit queries and keys,
//   phi(x) = M^(-1/2) [sin(W x), cos(W x)],  rows of W ~ N(0, sigma^-2 I)
// whose product estimates exp(-|q - k|^2 / (2 sigma^2)), that is exp(q.k / sigma^2) up to a
// constant that cancels. Weights are signed and a row's sum may come close to 0: it is kept away
// from 0 with its sign. The variance is sigma^-2; some surveys print sigma^2.
#include "model/attention/hydra_kernel.h"
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"
#include "model/attention/random_projection.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

class RfaMap : public FeatureMap {
 public:
  RfaMap(at::Tensor projection, double sigma) : projection_(std::move(projection)), sigma_(sigma) {}

  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    const at::Tensor u = unit_vectors(x).matmul(projection_.to(x.scalar_type()).t()) * (1 / sigma_);
    const double factor = 1 / std::sqrt(static_cast<double>(projection_.size(0)));
    return at::cat({u.sin(), u.cos()}, -1) * factor;
  }

 private:
  at::Tensor projection_;  ///< (M, d), standard normal rows
  double sigma_;
};

const MechanismRegistration kRfa(with_local_term({
    .name = "rfa",
    .aliases = {"random_feature_attention"},
    .summary = "trigonometric random features of a Gaussian kernel, O(N D M)",
    .citation = "Peng et al. 2021, Random Feature Attention, arXiv 2103.02143",
    .options = {integer_option("features", 128, 1, 65536, "random directions M; 2M features"),
                number_option("sigma", "1", 0.01, 100, "width of the kernel: exp(q.k / sigma^2)"),
                of_stored_tensors(choice_option("rows", "orthogonal", {"orthogonal", "independent"},
                                                "how the directions are drawn")),
                number_option("eps", "1e-6", 1e-12, 1, "least absolute sum of a row's weights"),
                of_stored_tensors(integer_option("seed", 0, 0, 1'000'000'000, "of the directions")),
                form_option()},
    .parameters = {{"feature_map.projection", "(M, d), not trained",
                    "standard normal rows, orthogonal in blocks of d"}},
    .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), signed",
    .rows_sum_to_one = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const auto directions = static_cast<double>(MechanismOptions(spec).integer("features"));
          const double map = 2 * static_cast<double>(size.num_tokens()) *
                             static_cast<double>(size.embed_dim) * directions;
          return linear_cost(size, 2 * directions, map);
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
          c10::make_intrusive<RfaMap>(projection, chosen.number("sigma")),
          Normaliser{Normaliser::Rule::signed_clamp, chosen.number("eps")}, is_causal(chosen));
    },
}));

}  // namespace
}  // namespace hydrascope::model
