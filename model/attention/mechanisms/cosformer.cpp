// cosFormer (Qin et al. 2022, cosFormer: Rethinking Softmax in Attention, arXiv 2202.08791,
// equation 10): sim = relu(q_i).relu(k_j) times a cosine of the distance, which splits into
// features. The paper's positions are a sequence; for patches at (r, c), with angles tr = pi r /
// (2R) and tc = pi c / (2C), this project uses
//   product  cos(tr_i - tr_j) cos(tc_i - tc_j)           features relu(x) x {cos, sin} x {cos, sin}
//   axial    (cos(tr_i - tr_j) + cos(tc_i - tc_j)) / 2   features relu(x) x {row pair, column pair}
//   raster   the paper's form, row after row             features relu(x) x {cos, sin}
// Prefix tokens have no position: the factor is 1 to and from them. Three groups of features say
// that: geometric (patch to patch), plain (prefix keys for patch queries), plain (all keys for
// prefix queries).
#include "kernels/error.h"
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hydrascope::model {
namespace {

enum class Reweighting { product, axial, raster };

class CosformerMap : public FeatureMap {
 public:
  CosformerMap(Reweighting reweighting, std::int64_t max_grid)
      : reweighting_(reweighting), max_grid_(max_grid) {}

  at::Tensor operator()(const at::Tensor& input, Side side, const TokenSpan& span) const override {
    const TokenGrid& grid = span.grid;
    const at::Tensor x = input.relu();
    const at::Tensor token =
        at::arange(span.first, span.first + x.size(2), x.options().dtype(at::kLong));
    const at::Tensor is_patch =
        (token >= grid.num_prefix).to(x.scalar_type()).unsqueeze(-1);  // (n, 1)
    const at::Tensor geometry =
        positions((token - grid.num_prefix).clamp_min(0), grid).to(x.scalar_type()) * is_patch;
    std::vector<at::Tensor> groups;
    for (std::int64_t i = 0; i < geometry.size(1); ++i)
      groups.push_back(x * geometry.narrow(1, i, 1));
    const at::Tensor of_prefix = x * (1 - is_patch);
    if (side == Side::query) {
      groups.push_back(x * is_patch);
      groups.push_back(of_prefix);
    } else {
      groups.push_back(of_prefix);
      groups.push_back(x);
    }
    return at::cat(groups, -1);
  }

 private:
  /// (n, 4) or (n, 2): the geometric factors of patches.
  [[nodiscard]] at::Tensor positions(const at::Tensor& patch, const TokenGrid& grid) const {
    if (max_grid_ > 0 && (grid.rows > max_grid_ || grid.columns > max_grid_)) {
      throw Error(ErrorCode::invalid_argument,
                  "max_grid is " + std::to_string(max_grid_) + ", the image has " +
                      std::to_string(grid.rows) + "x" + std::to_string(grid.columns) + " patches",
                  "cosformer");
    }
    const std::int64_t columns = std::max<std::int64_t>(1, grid.columns);
    const auto angle = [](const at::Tensor& position, std::int64_t length) {
      return position.to(at::kDouble) *
             (std::numbers::pi / 2 / static_cast<double>(std::max<std::int64_t>(1, length)));
    };
    if (reweighting_ == Reweighting::raster) {
      const at::Tensor t =
          angle(patch, max_grid_ > 0 ? max_grid_ * max_grid_ : grid.rows * grid.columns);
      return at::stack({t.cos(), t.sin()}, -1);
    }
    const at::Tensor tr =
        angle(at::floor_divide(patch, columns), max_grid_ > 0 ? max_grid_ : grid.rows);
    const at::Tensor tc = angle(at::remainder(patch, columns), max_grid_ > 0 ? max_grid_ : columns);
    if (reweighting_ == Reweighting::axial)
      return at::stack({tr.cos(), tr.sin(), tc.cos(), tc.sin()}, -1) / std::numbers::sqrt2;
    return at::stack(
        {tr.cos() * tc.cos(), tr.cos() * tc.sin(), tr.sin() * tc.cos(), tr.sin() * tc.sin()}, -1);
  }

  Reweighting reweighting_;
  std::int64_t max_grid_;
};

const MechanismRegistration kCosformer(with_local_term({
    .name = "cosformer",
    .aliases = {},
    .summary = "ReLU features reweighted by the cosine of patch distances, O(N D d)",
    .citation = "Qin et al. 2022, cosFormer: Rethinking Softmax in Attention, arXiv 2202.08791; "
                "its form for images is this project's",
    .options = {choice_option("reweighting", "product", {"product", "axial", "raster"},
                              "how rows and columns enter the cosine"),
                integer_option("max_grid", 0, 0, 65536,
                               "patches a side for which the angles are made; 0 = the image's"),
                form_option()},
    .map_definition =
        "A_ij = relu(q_i).relu(k_j) cos(distance_ij), rows normalised; prefix tokens at distance 0",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .permutation_equivariant = false,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const double factors = MechanismOptions(spec).text("reweighting") == "raster" ? 4 : 6;
          return linear_cost(size, factors * static_cast<double>(size.head_dim()), 0);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions chosen(arguments.spec);
      const std::string& name = chosen.text("reweighting");
      const Reweighting reweighting = name == "raster"  ? Reweighting::raster
                                      : name == "axial" ? Reweighting::axial
                                                        : Reweighting::product;
      return std::make_unique<LinearMixer>(
          c10::make_intrusive<CosformerMap>(reweighting, chosen.integer("max_grid")), Normaliser{},
          is_causal(chosen));
    },
}));

}  // namespace
}  // namespace hydrascope::model
