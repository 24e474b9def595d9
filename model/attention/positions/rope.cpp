// Rotary position embedding in two dimensions (Su et al. 2021, RoFormer, arXiv 2104.09864; in images
// Heo et al. 2024, Rotary Position Embedding for Vision Transformer, arXiv 2403.13298). Features of a
// head are taken in d / 2 pairs, and pair n of a patch at (r, c) is turned by an angle:
//   axial: c w_n for the first d / 4 pairs, r w_n for the others,   w_n = base^(-n / (d / 4))
//   mixed: c x_n + r y_n, with x and y of each head and layer learned
// order=ij turns the first pairs by the row. Pair n is features 2n and 2n + 1, with layout=half n and
// n + d / 2. Coordinates are patches; coords=train stretches the picture to the training grid (EVA-02,
// arXiv 2303.11331), coords=unit takes centres of patches from -1 to 1, times 2 pi (DINOv3, arXiv
// 2508.10104). Queries and keys are turned, values and prefix tokens never are. The scores of patches
// depend on their distance alone, those with the class token on the place; scale=0 is plain softmax.
// An overview (token_grid.h) is a picture of its own: its patches have the places of its own grid. With
// pos_interp=tile every tile of a larger picture has the training grid's places, as a table would have
// its entries (position_embedding.h).
#include "model/attention/attention.h"
#include "model/attention/balanced_intervals.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>
#include <vector>

namespace hydrascope::model {
namespace {

enum class RopeCoordinates { patch, train, unit };

const ChoiceOption<bool> kRopeMixed(
    "variant", {{"axial", false}, {"mixed", true}},
    "one axis turns a pair of features, or both, by learned amounts");
const NumberOption kRopeBase("base", "100", 1, 1e6, "of the frequencies; of mixed: of their start");
const ChoiceOption<bool> kRopeColumnsFirst("order", {{"xy", true}, {"ij", false}},
                                           "the axis of the first pairs: column or row");
const ChoiceOption<bool> kRopePairs("layout", {{"pairs", true}, {"half", false}},
                                    "what turns together: neighbours, or features d / 2 apart");
const ChoiceOption<RopeCoordinates> kRopeCoordinates(
    "coords",
    {{"patch", RopeCoordinates::patch},
     {"train", RopeCoordinates::train},
     {"unit", RopeCoordinates::unit}},
    "patches, patches of the picture stretched to the training grid, or -1 to 1 as DINOv3's");
const NumberOption kRopeOffset("offset", "0", 0, 1000,
                               "added to every place; only prefix tokens see it");
const NumberOption kRopeScale("scale", "1", 0, 1000, "times every angle; 0: softmax");

class Rope final : public PositionRule {
 public:
  explicit Rope(const TokenMixerArguments& arguments)
      : training_(arguments.training_grid),
        base_(kRopeBase(arguments.options)),
        columns_first_(kRopeColumnsFirst(arguments.options)),
        pairs_(kRopePairs(arguments.options)),
        coordinates_(kRopeCoordinates(arguments.options)),
        offset_(kRopeOffset(arguments.options)),
        scale_(kRopeScale(arguments.options)),
        tiles_(arguments.pos_interp == PosInterp::tile) {
    if (!kRopeMixed(arguments.options)) return;
    // The start is axial, rotated by a random angle of each head: both axes then turn every pair.
    const at::Tensor size =
        at::cat({frequencies(arguments.head_dim), frequencies(arguments.head_dim)});
    const at::Tensor angle =
        at::rand({arguments.num_heads, 1}, at::kDouble) * (2 * std::numbers::pi) +
        at::cat({at::zeros({arguments.head_dim / 4}, at::kDouble),
                 at::full({arguments.head_dim / 4}, std::numbers::pi / 2, at::kDouble)});
    freqs_ = arguments.add_parameter(
        "rope.freqs", at::stack({size * angle.cos(), size * angle.sin()}).to(at::kFloat));
  }

  [[nodiscard]] bool changes_scores() const override { return false; }

  [[nodiscard]] at::Tensor turned(const at::Tensor& x, const TokenGrid& grid,
                                  std::int64_t first) const override {
    const std::int64_t prefix = std::clamp<std::int64_t>(grid.num_prefix - first, 0, x.size(2));
    const std::int64_t count = x.size(2) - prefix;
    if (count == 0) return x;
    const at::Tensor angle = angles(grid, first + prefix, count, x.size(3), x.options());
    const at::Tensor patches = x.narrow(2, prefix, count);
    const auto half = [&](std::int64_t which) {
      const std::int64_t size = x.size(3) / 2;
      return pairs_ ? patches.unflatten(3, {size, 2}).select(4, which)
                    : patches.narrow(3, which * size, size);
    };
    const at::Tensor cosine = angle.cos().to(x.scalar_type());
    const at::Tensor sine = angle.sin().to(x.scalar_type());
    const at::Tensor one = half(0) * cosine - half(1) * sine;
    const at::Tensor other = half(1) * cosine + half(0) * sine;
    const at::Tensor both =
        pairs_ ? at::stack({one, other}, 4).flatten(3) : at::cat({one, other}, 3);
    return prefix == 0 ? both : at::cat({x.narrow(2, 0, prefix), both}, 2);
  }

  [[nodiscard]] std::optional<Rotation> rotation(const TokenGrid& grid,
                                                 std::int64_t head_dim) const override {
    at::Tensor angle =
        angles(grid, grid.num_prefix, grid.num_image_tokens(), head_dim, at::kDouble);
    angle = angle.dim() == 2 ? angle.unsqueeze(1) : angle.transpose(0, 1);
    return Rotation{angle.cos().to(at::kFloat).contiguous(),
                    angle.sin().to(at::kFloat).contiguous(), pairs_};
  }

 private:
  /// w_n, (d / 4) of double.
  [[nodiscard]] at::Tensor frequencies(std::int64_t head_dim) const {
    const at::Tensor exponent = at::arange(head_dim / 4, at::kDouble) / (head_dim / 4);
    return at::pow(1 / base_, exponent);
  }

  /// Angles of tokens first .. first + count, which are no prefix tokens: (count, d / 2) or
  /// (H, count, d / 2), of float32 at least.
  [[nodiscard]] at::Tensor angles(const TokenGrid& grid, std::int64_t first, std::int64_t count,
                                  std::int64_t head_dim, const at::TensorOptions& options) const {
    const std::int64_t patch = first - grid.num_prefix;
    const std::int64_t of_picture = std::clamp<std::int64_t>(grid.num_patches() - patch, 0, count);
    std::vector<at::Tensor> parts;
    if (of_picture > 0)
      parts.push_back(
          angles_in({grid.rows, grid.columns}, tiles_, patch, of_picture, head_dim, options));
    if (of_picture < count)
      parts.push_back(angles_in({grid.overview_rows, grid.overview_columns}, /*tiles=*/false,
                                patch + of_picture - grid.num_patches(), count - of_picture,
                                head_dim, options));
    return parts.size() == 1 ? parts.front() : at::cat(parts, -2);
  }

  /// The places along an axis of `length` patches, of double, as the angles take them.
  [[nodiscard]] at::Tensor places_along(std::int64_t length, std::int64_t trained,
                                        bool tiles) const {
    at::Tensor place = at::arange(length, at::kDouble);
    std::int64_t now = length;
    if (tiles && length > trained) {
      const BalancedIntervals intervals{length, trained};
      auto* const places = place.mutable_data_ptr<double>();
      for (std::int64_t i = 0; i < length; ++i)
        places[i] = static_cast<double>(i - intervals.begin(intervals.holding(i)));
      now = trained;
    }
    place = place + offset_;
    if (coordinates_ == RopeCoordinates::unit)
      place = ((place + 0.5) * (2.0 / static_cast<double>(now)) - 1) * (2 * std::numbers::pi);
    if (coordinates_ == RopeCoordinates::train)
      place = place * (static_cast<double>(trained) / static_cast<double>(now));
    return place * scale_;
  }

  /// The same for patches first .. first + count of one grid.
  [[nodiscard]] at::Tensor angles_in(const GridExtent& grid, bool tiles, std::int64_t first,
                                     std::int64_t count, std::int64_t head_dim,
                                     const at::TensorOptions& options) const {
    const at::ScalarType type =
        at::promote_types(c10::typeMetaToScalarType(options.dtype()), at::kFloat);
    const at::Tensor patch = at::arange(first, first + count, at::kLong);
    const at::Tensor rows = places_along(grid.rows, training_.rows, tiles)
                                .index_select(0, patch.div(grid.columns, "floor"));
    const at::Tensor columns = places_along(grid.columns, training_.columns, tiles)
                                   .index_select(0, patch.remainder(grid.columns));
    const at::Tensor& first_axis = columns_first_ ? columns : rows;
    const at::Tensor& second_axis = columns_first_ ? rows : columns;
    if (freqs_.defined()) {
      const auto turn = [&](const at::Tensor& place, std::int64_t axis) {
        return place.to(options.device(), type).unsqueeze(1) *
               freqs_[axis].to(options.device(), type).unsqueeze(1);
      };
      return turn(first_axis, 0) + turn(second_axis, 1);
    }
    const at::Tensor frequency = frequencies(head_dim).unsqueeze(0);
    const at::Tensor angle =
        at::cat({first_axis.unsqueeze(1) * frequency, second_axis.unsqueeze(1) * frequency}, 1);
    return angle.to(options.device(), type);
  }

  TokenGrid training_;
  double base_;
  bool columns_first_;
  bool pairs_;
  RopeCoordinates coordinates_;
  double offset_;
  double scale_;
  bool tiles_;
  at::Tensor freqs_;  ///< (2, H, d / 2), of the mixed variant
};

const PositionRegistration kRope({
    .name = "rope",
    .aliases = {"rotary"},
    .summary = "rotary embedding: pairs of features of q and k turned by row and column",
    .citation = "Su et al. 2021, RoFormer, arXiv 2104.09864; Heo et al. 2024, Rotary Position "
                "Embedding for Vision Transformer, arXiv 2403.13298",
    .scores = "s_ij = (R_i q_i) . (R_j k_j) / sqrt(d), R turns pair n by c w_n or r w_n",
    .options = {kRopeMixed, kRopeBase, kRopeColumnsFirst, kRopePairs, kRopeCoordinates, kRopeOffset,
                kRopeScale},
    .parameters = {{"rope.freqs", "(2, H, d/2), with variant=mixed",
                    "axial's frequencies, turned by a random angle"}},
    .head_multiple = 4,
    .places_overview = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions&, double) {
          // Two features of q and of k turn by four products and two sums.
          return 6 * static_cast<double>(size.grid.num_image_tokens() * size.embed_dim);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<Rope>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
