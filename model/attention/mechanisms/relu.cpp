// Linear attention with phi(x) = max(x, 0). F = d. A query whose features are all negative attends
// to nothing and gives 0 = 0 / (0 + eps), never NaN.
#include "model/attention/linear/linear_mechanism.h"

namespace hydrascope::model {
namespace {

const MechanismRegistration kRelu(elementwise_mechanism(
    {.name = "relu",
     .aliases = {"relu_linear"},
     .summary = "linear attention with phi = ReLU, O(N D d)",
     .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 3"},
    kernels::linear_attention::Feature::relu));

}  // namespace
}  // namespace hydrascope::model
