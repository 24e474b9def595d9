// Neighbourhood attention (Hassani et al. 2023, arXiv 2204.07143; dilated: Hassani and Shi 2022,
// arXiv 2209.15001), the image form of Longformer's sliding window (Beltagy et al. 2020, arXiv
// 2004.05150): a patch sees the w x w patches around it, of every e-th row and column, and the
// prefix tokens, which see everything. Along an axis of n patches position x, of phase f = x mod e,
// sees k = min(w, m) of the m = ceil((n - f) / e) positions of its phase:
//   f + e (s .. s + k - 1),    s = clamp(floor(x / e) - floor(k / 2), 0, m - k)
// At the picture's edge the neighbourhood moves inwards, so that every patch has as many keys;
// border=clip cuts the centred one off instead (Longformer; Vision Longformer, Zhang et al. 2021,
// arXiv 2103.15358). With the training grid as its window the layer is softmax there.
#include "model/attention/axis_pattern.h"
#include "model/attention/registry.h"
#include "model/attention/sparse_softmax.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

/// Patches along an axis that are computed together: for a window of 14 they read 21 rows of keys.
constexpr std::int64_t kTileSide = 8;

AxisRule neighborhood_rule(std::int64_t window, std::int64_t dilation, bool clips) {
  const auto keys = [=](std::int64_t position, std::int64_t length) {
    const std::int64_t phase = position % dilation;
    const std::int64_t at = position / dilation;
    const std::int64_t positions = (length - phase + dilation - 1) / dilation;
    const std::int64_t most = std::min(window, positions);
    std::int64_t begin = std::clamp<std::int64_t>(at - most / 2, 0, positions - most);
    std::int64_t end = begin + most;
    if (clips) {
      begin = std::max<std::int64_t>(0, at - window / 2);
      end = std::min(positions, at - window / 2 + window);
    }
    return AxisKeys{phase + dilation * begin, end - begin};
  };
  return {keys, dilation, kTileSide};
}

const ExtentOption kNeighbours("window",
                               "patches that a patch sees along an axis; 0: the training grid");
const IntegerOption kDilation("dilation", 1, 1, 65536, "every so many rows and columns are seen");
const IntegerOption kDilatedHeads("dilated_heads", 0, 0, 65536,
                                  "the last heads, which dilate; 0: all");
const ChoiceOption<bool> kClips(
    "border", {{"shift", false}, {"clip", true}},
    "at the picture's edge the neighbourhood moves inwards or is cut off");

std::vector<HeadPattern> neighborhoods(const MechanismOptions& options, const TokenGrid& training,
                                       std::int64_t num_heads) {
  const GridExtent window = kNeighbours(options, training);
  const bool clips = kClips(options);
  const std::int64_t dilation = kDilation(options);
  const std::int64_t asked = kDilatedHeads(options);
  const std::int64_t dilated = asked == 0 ? num_heads : std::min(asked, num_heads);
  std::vector<HeadPattern> heads;
  const auto add = [&](std::int64_t count, std::int64_t step) {
    if (count == 0) return;
    heads.push_back(
        {count, std::make_unique<AxisPattern>(neighborhood_rule(window.rows, step, clips),
                                              neighborhood_rule(window.columns, step, clips))});
  };
  if (dilation == 1) {
    add(num_heads, 1);
  } else {
    add(num_heads - dilated, 1);
    add(dilated, dilation);
  }
  return heads;
}

const MechanismRegistration kNeighborhood({
    .name = "neighborhood",
    .aliases = {"na", "natten", "local", "sliding_window", "vil"},
    .summary = "softmax attention over the patches around each patch, O(N D w^2)",
    .citation =
        "Hassani et al. 2023, Neighborhood Attention Transformer, arXiv 2204.07143; Beltagy "
        "et al. 2020, Longformer, arXiv 2004.05150",
    .options = {kNeighbours, kDilation, kDilatedHeads, kClips, prefix_rows_option()},
    .parameters = prefix_rows_parameters(),
    .map_definition =
        "A_h = softmax(q_h k_h^T / sqrt(d)) over the patches around the query and the "
        "prefix tokens, 0 elsewhere; rows of prefix tokens over all",
    .rows_sum_to_one = true,
    .non_negative = true,
    .permutation_equivariant = false,
    .sparse = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions& options) {
          return sparse_cost(size, neighborhoods(options, size.training_grid, size.num_heads));
        },
    .added_elements = prefix_rows_elements,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<SparseSoftmaxMixer>(
          neighborhoods(arguments.options, arguments.training_grid, arguments.num_heads), arguments,
          prefix_rows_option()(arguments.options));
    },
});

}  // namespace
}  // namespace hydrascope::model
