// Linear attention with phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236, equation
// 7): x + 1 above 0, exp(x) below. F = d. exp(x) underflows below -87, hence the eps.
#include "model/attention/linear/linear_mechanism.h"

namespace hydrascope::model {
namespace {

const MechanismRegistration kElu(elementwise_mechanism(
    {.name = "elu",
     .aliases = {"linear", "elu+1", "elu1"},
     .summary = "linear attention with phi = elu + 1, O(N D d)",
     .citation = "Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236"},
    kernels::linear_attention::Feature::elu_plus_one));

}  // namespace
}  // namespace hydrascope::model
