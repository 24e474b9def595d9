// LookHere (Fuller et al. 2024, arXiv 2405.13985): heads look in a direction, and keys count less
// with their distance:
//   s_ij = q_i . k_j / sqrt(d) - strength g_l m_h |offset_ij| in the head's field of view, -inf outside
// Directed heads look in fours, each four in the four directions of one kind; the first half of the
// fours has the first kind. view=180: half planes up, down, left and right, then half planes along
// the diagonals; view=90: quarters between rows and columns, then between the diagonals; view=45:
// eighths to one side of the axes, then to the other. A field includes its bounds. m_h is 1/2 in
// the first four of a kind and halves with each further one; the other heads look around with 1/4,
// 1/16, 1/64, 1/256. g_l falls linearly over the layers from 1.5 to 0.5, and strength, the global
// slope, is 2. Prefix tokens see and are seen at distance 0. strength=0 with view=none is softmax.
// Checkpoints have no `pos_embed`. Directions and slopes come from the authors' code
// (github.com/GreenCUBIC/lookhere) for 6, 12 and 16 heads, layer and global slopes from the
// configurations published for 180 and 90 degrees. The slopes of eighths (the same) and the rules
// for other numbers of heads are this project's choice.
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
const NumberOption kLookHereStrength("strength", "2", 0, 1000,
                                     "global slope, times every other; 0: no distance");

constexpr std::int64_t kDirections = 4;  ///< of one kind, one head each

/// 4, 8 and 12 directed heads of 6, 12 and 16.
std::int64_t directed_heads(std::int64_t num_heads) {
  return num_heads < 6 ? 2 * num_heads / 3 : (num_heads - 2) / kDirections * kDirections;
}

/// The fours of directed heads that look in the directions of the first kind.
std::int64_t fours_of_first_kind(std::int64_t num_heads) {
  const std::int64_t fours = (directed_heads(num_heads) + kDirections - 1) / kDirections;
  return (fours + 1) / 2;
}

std::vector<double> lookhere_slopes(std::int64_t num_heads) {
  const std::int64_t directed = directed_heads(num_heads);
  const std::int64_t of_first_kind = fours_of_first_kind(num_heads);
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < directed; ++h)
    slopes.push_back(std::exp2(-1 - static_cast<double>(h / kDirections % of_first_kind)));
  for (std::int64_t h = directed; h < num_heads; ++h)
    slopes.push_back(std::pow(4.0, -1 - static_cast<double>(h - directed)));
  return slopes;
}

/// (G, n, m) bool: does a head see the key that looks in a direction of the first or second kind?
at::Tensor in_view(FieldOfView view, bool of_first_kind, std::int64_t direction,
                   const PatchOffsets& offset) {
  // The offset of rows is positive above the query, the offset of columns to its left.
  const at::Tensor& up = offset.rows;
  const at::Tensor& left = offset.columns;
  const at::Tensor towards[] = {up, up.neg(), left, left.neg()};
  const at::Tensor& along = towards[direction];
  if (view == FieldOfView::half && of_first_kind) return along >= 0;
  if (view == FieldOfView::half) {
    // Up to the right, up to the left, down to the right, down to the left.
    return towards[direction / 2] + towards[3 - direction % 2] >= 0;
  }
  if (view == FieldOfView::quarter && of_first_kind)
    return (towards[direction / 2] >= 0).logical_and(towards[2 + direction % 2] >= 0);
  const bool vertical = direction < 2;
  if (view == FieldOfView::quarter) return along >= (vertical ? left : up).abs();
  // Heads that look up or down see the left side, heads that look left or right the upper one; the
  // second kind sees the other side.
  const at::Tensor& side = towards[(vertical ? 2 : 0) + (of_first_kind ? 0 : 1)];
  return (side >= 0).logical_and(along >= side);
}

class LookHere final : public PositionRule {
 public:
  explicit LookHere(const TokenMixerArguments& arguments)
      : view_(kLookHereView(arguments.options)),
        directed_(directed_heads(arguments.num_heads)),
        first_kind_(kDirections * fours_of_first_kind(arguments.num_heads)) {
    const double last = std::max<double>(1, static_cast<double>(arguments.depth - 1));
    const double of_layer = 1.5 - static_cast<double>(arguments.layer_index) / last;
    slopes_ = at::tensor(lookhere_slopes(arguments.num_heads), at::kDouble) *
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
        const at::Tensor seen = in_view(view_, head < first_kind_, head % kDirections, offset)
                                    .logical_or(offset.patches.logical_not());
        bias = bias.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
      }
      heads.push_back(bias);
    }
    return scaled_products(q, k) + at::stack(heads, 1).to(q.device());
  }

 private:
  FieldOfView view_;
  std::int64_t directed_;
  std::int64_t first_kind_;  ///< directed heads of the first kind
  at::Tensor slopes_;        ///< (H) double, the layer's taken in
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
