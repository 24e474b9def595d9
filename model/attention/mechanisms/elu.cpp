// Linear attention with phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236, equation
// 7): x + 1 above 0, exp(x) below. F = d. exp(x) underflows below -87, hence the eps.
#include "model/attention/linear_mechanism.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

at::Tensor elu_plus_one(const at::Tensor& x) {
  // exp(x) - 1 + 1 would lose what is small: a tenth of its value at x = -15.
  return at::where(x > 0, x + 1, x.clamp_max(0).exp());
}

const MechanismRegistration kElu(elementwise_mechanism(
    {.name = "elu",
     .aliases = {"linear", "elu+1", "elu1"},
     .summary = "linear attention with phi = elu + 1, O(N D d)",
     .citation = "Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236"},
    elu_plus_one, kernels::linear_attention::Feature::elu_plus_one));

}  // namespace
}  // namespace hydrascope::model
