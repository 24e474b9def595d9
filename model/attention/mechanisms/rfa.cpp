// Random feature attention (Peng et al. 2021, arXiv 2103.02143, equation 5): unit queries and keys,
//   phi(x) = M^(-1/2) [sin(W x), cos(W x)],  rows of W ~ N(0, sigma^-2 I)
// whose product estimates exp(-|q - k|^2 / (2 sigma^2)), that is exp(q.k / sigma^2) up to a
// constant that cancels. Weights are signed and a row's sum may come close to 0: it is kept away
// from 0 with its sign. The variance is sigma^-2; some surveys print sigma^2.
#include "model/attention/linear/random_projection.h"
#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

const IntegerOption kRfaFeatures("features", 128, 1, 65536, "random directions M; 2M features");
const NumberOption kGaussianWidth("sigma", "1", 0.01, 100,
                                  "width of the kernel: exp(q.k / sigma^2)");
const NumberOption kRfaEps("eps", "1e-6", 1e-12, 1, "least absolute sum of a row's weights");

const MechanismRegistration kRfa(random_mechanism(
    {.name = "rfa",
     .aliases = {"random_feature_attention"},
     .summary = "trigonometric random features of a Gaussian kernel, O(N D M)",
     .citation = "Peng et al. 2021, Random Feature Attention, arXiv 2103.02143",
     .options = {kRfaFeatures, kGaussianWidth, kRfaEps},
     .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), signed"},
    kRfaFeatures,
    [](const at::Tensor& projection, const MechanismOptions& options) {
      const double factor = 1 / std::sqrt(static_cast<double>(projection.size(0)));
      return formula_map(
          FeatureMap::Values::features, [=, sigma = kGaussianWidth(options)](const at::Tensor& x) {
            const at::Tensor u =
                unit_rows(x).matmul(projection.to(x.scalar_type()).t()) * (1 / sigma);
            return at::cat({u.sin(), u.cos()}, -1) * factor;
          });
    },
    {.normaliser = {.rule = Normaliser::Rule::signed_clamp},
     .eps = &kRfaEps,
     .feature_dim = [](const MixerSize&, const MechanismOptions& options) {
       return 2 * static_cast<double>(kRfaFeatures(options));
     }}));

}  // namespace
}  // namespace hydrascope::model
