// Linear attention with phi_f(x) = exp(t x_f) (Zhang et al. 2024, arXiv 2402.04347, section 3.1):
// spiky for t = 2, not monotone in q.k. F = d; stabilised from both sides, so no eps.
#include "model/attention/linear/linear_mechanism.h"

namespace hydrascope::model {
namespace {

const NumberOption kT("t", "1", 0.01, 100, "inverse temperature; the paper uses 1 and 2");

const MechanismRegistration kExp(linear_mechanism(
    {.name = "exp",
     .aliases = {"exp_t"},
     .summary = "linear attention with phi = exp(t x), O(N D d)",
     .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 3",
     .options = {kT},
     .map_definition = "A_ij = sum_f exp(t q_if + t k_jf), rows normalised"},
    {.map = [](const TokenMixerArguments& arguments) {
      const double t = kT(arguments.options);
      return kernel_map({kernels::linear_attention::Feature::exp, 0, {{}, {}, t}, {{}, {}, t}});
    }}));

}  // namespace
}  // namespace hydrascope::model
