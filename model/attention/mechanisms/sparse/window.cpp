// Softmax attention within windows of the patch grid: Swin's W-MSA (Liu et al. 2021, arXiv
// 2103.14030) and the windows of ViTDet (Li et al. 2022, arXiv 2203.16527) without halo, the query
// blocks of Image Transformer (Parmar et al. 2018, arXiv 1802.05751) and HaloNet (Vaswani et al.
// 2021, arXiv 2103.12731) with one. A patch sees its own window, grown by the halo, and the prefix
// tokens, which see everything. Two choices are this project's: an axis is cut into as few
// intervals of at most `size` as it takes, which differ by one patch at most (Swin pads and masks
// the last ones), and `size` is the training grid, so that the layer is softmax there, bit for bit.
// shift=alternate: in layers of odd number the borders are the middles of the intervals and the
// first and last window half as wide: the windows of Swin's shift without its roll and its mask. An
// axis of one interval stays whole, as in Swin.
// order=raster is Image Transformer's one-dimensional form: the patches are one row, read line by
// line, and a window is as many patches as a window of the grid holds.
#include "model/attention/sparse/sparse_softmax.h"
#include "model/attention/sparse/window_pattern.h"
#include "model/registry/mechanisms.h"

#include <memory>
#include <optional>
#include <vector>

namespace hydrascope::model {
namespace {

const ExtentOption kWindowSize("size", "patches of a window, at most; 0: the training grid");
const IntegerOption kHalo("halo", 0, 0, 65536, "patches around its window that a patch sees, too");
const ChoiceOption<bool> kAlternates(
    "shift", {{"none", false}, {"alternate", true}},
    "windows of layers 1, 3, 5.. lie across the borders of the others");
const ChoiceOption<bool> kIsRaster("order", {{"grid", false}, {"raster", true}},
                                   "windows of the grid, or of its patches line by line");

/// A pattern of the patches as one row.
class RasterPattern final : public KeyPattern {
 public:
  explicit RasterPattern(std::unique_ptr<KeyPattern> of_row) : of_row_(std::move(of_row)) {}
  [[nodiscard]] at::Tensor rows(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const override {
    return of_row_->rows(row_of(grid), first, count);
  }
  [[nodiscard]] std::vector<std::vector<KeyGroups>> passes(const TokenGrid& grid) const override {
    return of_row_->passes(row_of(grid));
  }
  [[nodiscard]] double num_pairs(const TokenGrid& grid) const override {
    return of_row_->num_pairs(row_of(grid));
  }

 private:
  static TokenGrid row_of(const TokenGrid& grid) {
    return {grid.num_prefix, 1, grid.num_patches()};
  }

  std::unique_ptr<KeyPattern> of_row_;
};

bool is_shifted(const MechanismOptions& options, const SparseLayer& layer) {
  return kAlternates(options) && layer.layer_index % 2 == 1;
}

std::vector<HeadPattern> windows(const MechanismOptions& options, const SparseLayer& layer) {
  GridExtent size = kWindowSize(options, layer.training_grid);
  if (kIsRaster(options)) size = {1, size.rows * size.columns};
  auto pattern = window_pattern(size, kHalo(options), is_shifted(options, layer));
  if (kIsRaster(options)) pattern = std::make_unique<RasterPattern>(std::move(pattern));
  std::vector<HeadPattern> heads;
  heads.push_back({layer.num_heads, std::move(pattern)});
  return heads;
}

/// The windows' size if patches see plain windows of the grid and no other patches.
std::optional<GridExtent> plain_windows(const MechanismOptions& options, const SparseLayer& layer) {
  if (kHalo(options) > 0 || kIsRaster(options) || is_shifted(options, layer)) return std::nullopt;
  return kWindowSize(options, layer.training_grid);
}

const MechanismRegistration kWindow(sparse_mechanism(
    {.name = "window",
     .aliases = {"swin", "windowed", "image_transformer", "vitdet"},
     .summary = "softmax attention within windows of the patch grid, O(N D w^2)",
     .citation =
         "Liu et al. 2021, Swin Transformer, arXiv 2103.14030; Li et al. 2022, Exploring "
         "Plain Vision Transformer Backbones for Object Detection, arXiv 2203.16527; with a "
         "halo Parmar et al. 2018, Image Transformer, arXiv 1802.05751",
     .options = {kWindowSize, kHalo, kAlternates, kIsRaster},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the query's window and the prefix "
                       "tokens, 0 elsewhere; rows of prefix tokens over all"},
    windows, plain_windows));

}  // namespace
}  // namespace hydrascope::model
