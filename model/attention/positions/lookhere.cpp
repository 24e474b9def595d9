// LookHere (Fuller et al. 2024, arXiv 2405.13985): heads look in a direction, and what they see counts
// less with its distance:
//   s_ij = q_i . k_j / sqrt(d) - strength g_l m_h |offset_ij| in the head's field of view, -inf outside
// Of H heads the first 4 floor(H / 6) look in a direction, of fewer than six two thirds of them, and the
// others around. view=180: half planes, up, down, left and right; view=90: the quarters between them;
// view=45: eighths. A query's own row and column, where they bound the field, are in it. m_h halves with
// each four directed heads from 1/2 (at 45 degrees it is 1/2 for all); of the n others it quarters n/4
// heads at a time from 1/4. g_l falls linearly over the layers from 1.5 to 0.5. Prefix tokens see and
// are seen at distance 0. strength=0 with view=none is softmax. Checkpoints have no `pos_embed`.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::model {
namespace {

enum class FieldOfView { half, quarter, eighth, all };

const ChoiceOption<FieldOfView> kLookHereView("view",
                                              {{"180", FieldOfView::half},
                                               {"90", FieldOfView::quarter},
                                               {"45", FieldOfView::eighth},
                                               {"none", FieldOfView::all}},
                                              "degrees that a directed head sees");
const NumberOption kLookHereStrength("strength", "1", 0, 1000, "times every slope; 0: no distance");

std::int64_t directed_heads(std::int64_t num_heads) {
  return num_heads < 6 ? 2 * num_heads / 3 : num_heads / 6 * 4;
}

std::vector<double> lookhere_slopes(std::int64_t num_heads, FieldOfView view) {
  const std::int64_t directed = directed_heads(num_heads);
  const std::int64_t around = num_heads - directed;
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < directed; ++h) {
    const auto group = static_cast<double>(view == FieldOfView::eighth ? 0 : h / 4);
    slopes.push_back(std::exp2(-(1 + group)));
  }
  const std::int64_t of_one_slope = std::max<std::int64_t>(1, around / 4);
  for (std::int64_t h = 0; h < around; ++h)
    slopes.push_back(std::pow(4.0, -(1 + static_cast<double>(h / of_one_slope))));
  return slopes;
}

/// (G, n, m) bool: does directed head `head` see the key?
at::Tensor in_view(FieldOfView view, std::int64_t head, const PatchOffsets& offset) {
  // Above the query the offset of rows is positive, to its left that of columns.
  const at::Tensor& up = offset.rows;
  const at::Tensor& left = offset.columns;
  const at::Tensor towards[] = {up, up.neg(), left, left.neg()};
  if (view == FieldOfView::half) return towards[head % 4] >= 0;
  if (view == FieldOfView::quarter) {
    return (towards[head % 4 / 2] >= 0).logical_and(towards[2 + head % 2] >= 0);
  }
  // Between an axis and a diagonal: along the axis at least as far as to the side, and on that side.
  const bool vertical = head % 4 < 2;
  const at::Tensor& along = towards[head % 4];
  const at::Tensor& side = towards[(vertical ? 2 : 0) + head / 4 % 2];
  return (side >= 0).logical_and(along >= side);
}

class LookHere final : public PositionRule {
 public:
  explicit LookHere(const TokenMixerArguments& arguments)
      : view_(kLookHereView(arguments.options)), directed_(directed_heads(arguments.num_heads)) {
    const double last = std::max<double>(1, static_cast<double>(arguments.depth - 1));
    const double of_layer = 1.5 - static_cast<double>(arguments.layer_index) / last;
    slopes_ = at::tensor(lookhere_slopes(arguments.num_heads, view_), at::kDouble) *
              (of_layer * kLookHereStrength(arguments.options));
  }

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const at::Tensor distance = distances(pairs, q.scalar_type());
    const PatchOffsets offset = offsets(pairs);
    std::vector<at::Tensor> heads;
    for (std::int64_t i = 0; i < q.size(2); ++i) {
      const std::int64_t head = pairs.first_head + i;
      at::Tensor bias = distance * -slopes_[head].item<double>();
      if (head < directed_ && view_ != FieldOfView::all) {
        const at::Tensor seen =
            in_view(view_, head, offset).logical_or(offset.patches.logical_not());
        bias = bias.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
      }
      heads.push_back(bias);
    }
    return scaled_products(q, k) + at::stack(heads, 1).to(q.device());
  }

 private:
  FieldOfView view_;
  std::int64_t directed_;
  at::Tensor slopes_;  ///< (H) double, the layer's taken in
};

const PositionRegistration kLookHere({
    .name = "lookhere",
    .summary = "directed heads with a field of view, and a bias by distance",
    .citation =
        "Fuller et al. 2024, LookHere: Vision Transformers with Directed Attention Generalize "
        "and Extrapolate, arXiv 2405.13985",
    .scores = "s_ij = q_i . k_j / sqrt(d) - strength g_l m_h |offset_ij|, -inf outside of the view",
    .options = {kLookHereView, kLookHereStrength},
    .cost =
        [](const MixerSize& size, const MechanismOptions&, double pairs) {
          return 2 * pairs *
                 static_cast<double>(size.num_heads);  // a slope times a distance, added
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<LookHere>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
