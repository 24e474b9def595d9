// Softmax attention within windows of the patch grid: Swin's W-MSA (Liu et al. 2021, arXiv
// 2103.14030) and the windows of ViTDet (Li et al. 2022, arXiv 2203.16527) without halo, the query
// blocks of Image Transformer (Parmar et al. 2018, arXiv 1802.05751) and HaloNet (Vaswani et al.
// 2021, arXiv 2103.12731) with one. A patch sees its own window, grown by the halo, and the prefix
// tokens; those see everything. What is this project's: an axis is cut into as few intervals of at
// most `size` as it takes, which differ by one patch at most (Swin pads and masks the last ones),
// and `size` is the training grid, so that the layer is softmax there, bit for bit.
// shift=alternate: in layers of odd number the borders are the middles of the intervals and the
// first and last window half as wide: the windows of Swin's shift without its roll and its mask. An
// axis of one interval stays whole, as in Swin.
#include "model/attention/registry.h"
#include "model/attention/sparse_softmax.h"
#include "model/attention/window_pattern.h"

#include <optional>

namespace hydrascope::model {
namespace {

const ExtentOption kWindowSize("size", "patches of a window, at most; 0: the training grid");
const IntegerOption kHalo("halo", 0, 0, 65536, "patches around its window that a patch sees, too");
const ChoiceOption<bool> kAlternates(
    "shift", {{"none", false}, {"alternate", true}},
    "windows of layers 1, 3, 5.. lie across the borders of the others");

bool is_shifted(const MechanismOptions& options, std::int64_t layer_index) {
  return kAlternates(options) && layer_index % 2 == 1;
}

std::vector<HeadPattern> windows(const MechanismOptions& options, const TokenGrid& training,
                                 std::int64_t num_heads, std::int64_t layer_index) {
  std::vector<HeadPattern> heads;
  heads.push_back({num_heads, window_pattern(kWindowSize(options, training), kHalo(options),
                                             is_shifted(options, layer_index))});
  return heads;
}

const MechanismRegistration kWindow({
    .name = "window",
    .aliases = {"swin", "windowed", "image_transformer", "vitdet"},
    .summary = "softmax attention within windows of the patch grid, O(N D w^2)",
    .citation = "Liu et al. 2021, Swin Transformer, arXiv 2103.14030; Li et al. 2022, Exploring "
                "Plain Vision Transformer Backbones for Object Detection, arXiv 2203.16527; with a "
                "halo Parmar et al. 2018, Image Transformer, arXiv 1802.05751",
    .options = {kWindowSize, kHalo, kAlternates, prefix_rows_option()},
    .parameters = prefix_rows_parameters(),
    .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the query's window and the prefix "
                      "tokens, 0 elsewhere; rows of prefix tokens over all",
    .rows_sum_to_one = true,
    .non_negative = true,
    .permutation_equivariant = false,
    .sparse = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions& options) {
          return sparse_cost(size, windows(options, size.training_grid, size.num_heads, 0));
        },
    .added_elements = prefix_rows_elements,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions& options = arguments.options;
      std::optional<GridExtent> size;  // where windows are all that a patch sees
      if (kHalo(options) == 0 && !is_shifted(options, arguments.layer_index))
        size = kWindowSize(options, arguments.training_grid);
      return std::make_unique<SparseSoftmaxMixer>(
          windows(options, arguments.training_grid, arguments.num_heads, arguments.layer_index),
          arguments, prefix_rows_option()(options), size);
    },
});

}  // namespace
}  // namespace hydrascope::model
