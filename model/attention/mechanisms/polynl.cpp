// PolyNL (Babiloni et al., ICCV 2021): third-order interactions of the layer's input X,
//   y = X * mean_t(k_t * v_t)
// X takes the place of the query; the block's own residual is the skip connection, the layer's
// `proj` the output matrix. Equal to Hydra with phi(x) = x / sqrt(N) on both sides and q = X.
#include "model/attention/hydra_attention.h"
#include "model/registry/mechanisms.h"

namespace hydrascope::model {
namespace {

const MechanismRegistration kPolynl({
    .name = "polynl",
    .aliases = {"poly_nl"},
    .summary = "PolyNL: the input times the mean of k * v, O(N D)",
    .citation = "Babiloni et al. 2021, Poly-NL: Linear Complexity Non-local Layers with 3rd Order "
                "Polynomials, ICCV",
    .map_definition =
        "none (one per feature); contribution of token t to token i: x_i * k_t * v_t / N",
    .has_map = false,
    .normalised = true,
    .query_is_input = true,
    .has_state = true,
    .cost = [](const MixerSize& size, const MechanismOptions&) { return hydra_cost(size, 0); },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<HydraMixer>(
          HydraSettings{find_hydra_kernel("mean"), find_hydra_kernel("mean")}, TokenScale::none,
          arguments.training_grid);
    },
});

}  // namespace
}  // namespace hydrascope::model
