// cosFormer (Qin et al. 2022, cosFormer: Rethinking Softmax in Attention, arXiv 2202.08791,
// equation 10): sim = relu(q_i).relu(k_j) times a cosine of the distance, which splits into
// features. The paper's positions are a sequence; for patches at (r, c), with angles tr = pi r /
// (2R) and tc = pi c / (2C), this project uses
//   cos(tr_i - tr_j) cos(tc_i - tc_j)           features relu(x) x {cos, sin} x {cos, sin}
// Prefix tokens have no position: the factor is 1 to and from them, by three groups of features:
// geometric (patch to patch), plain (prefix keys for patch queries), plain (all keys for prefix
// queries).
#include "model/attention/linear/linear_mechanism.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>
#include <vector>

namespace hydrascope::model {
namespace {

/// (n, 4): the geometric factors of patches.
at::Tensor position_factors(const at::Tensor& patch, const TokenGrid& grid) {
  const std::int64_t columns = std::max<std::int64_t>(1, grid.columns);
  const auto angle = [](const at::Tensor& position, std::int64_t length) {
    return position.to(at::kDouble) *
           (std::numbers::pi / 2 / static_cast<double>(std::max<std::int64_t>(1, length)));
  };
  const at::Tensor tr = angle(at::floor_divide(patch, columns), grid.rows);
  const at::Tensor tc = angle(at::remainder(patch, columns), columns);
  return at::stack(
      {tr.cos() * tc.cos(), tr.cos() * tc.sin(), tr.sin() * tc.cos(), tr.sin() * tc.sin()}, -1);
}

class CosformerMap final : public FeatureMap {
 public:
  at::Tensor operator()(const at::Tensor& input, Side side, const TokenSpan& span) const override {
    const TokenGrid& grid = span.grid;
    const at::Tensor x = input.relu();
    const at::Tensor token =
        at::arange(span.first, span.first + x.size(2), x.options().dtype(at::kLong));
    const at::Tensor is_patch =
        (token >= grid.num_prefix).to(x.scalar_type()).unsqueeze(-1);  // (n, 1)
    const at::Tensor geometry =
        position_factors((token - grid.num_prefix).clamp_min(0), grid).to(x.scalar_type()) *
        is_patch;
    std::vector<at::Tensor> groups;
    for (std::int64_t i = 0; i < geometry.size(1); ++i)
      groups.push_back(x * geometry.narrow(1, i, 1));
    const at::Tensor of_prefix = x * (1 - is_patch);
    groups.push_back(side == Side::query ? x * is_patch : of_prefix);
    groups.push_back(side == Side::query ? of_prefix : x);
    return at::cat(groups, -1);
  }
};

const MechanismRegistration kCosformer(linear_mechanism(
    {.name = "cosformer",
     .summary = "ReLU features reweighted by the cosine of patch distances, O(N D d)",
     .citation = "Qin et al. 2022, cosFormer: Rethinking Softmax in Attention, arXiv 2202.08791; "
                 "its form for images is this project's",
     .former_options = {{"reweighting", "product"}, {"max_grid", "0"}},
     .map_definition =
         "A_ij = relu(q_i).relu(k_j) cos(distance_ij), rows normalised; prefix tokens "
         "at distance 0",
     .permutation_equivariant = false},
    {.map = [](const TokenMixerArguments&) -> FeatureMapPtr {
       return c10::make_intrusive<CosformerMap>();
     },
     .feature_dim =
         [](const MixerSize& size, const MechanismOptions&) {
           return 6 * static_cast<double>(size.head_dim());
         }}));

}  // namespace
}  // namespace hydrascope::model
