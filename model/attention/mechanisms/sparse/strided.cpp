// Sparse Transformer's strided pattern (Child et al. 2019, Generating Long Sequences with Sparse
// Transformers, arXiv 1904.10509, section 4.3) with the picture's width as its stride: a patch sees
// its own row and its own column, so that two layers join all patches; axial attention (Ho et al.
// 2019, arXiv 1912.12180) in its separate forms. The causal cut falls away, the prefix tokens are
// seen by all and see all.
//   combine=merged   both in every head: the paper's merged set
//           heads    the first half of the heads sees rows, the others columns
//           rows, columns   one of them, to be interleaved by layer
// `band` widens the row to 2 b + 1 of them.
#include "model/attention/sparse/axis_pattern.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace hydrascope::model {
namespace {

enum class Combine { merged, heads, rows, columns };

const ChoiceOption<Combine> kCombine("combine",
                                     {{"merged", Combine::merged},
                                      {"heads", Combine::heads},
                                      {"rows", Combine::rows},
                                      {"columns", Combine::columns}},
                                     "rows and columns in every head, in half of them each, or one "
                                     "of both");
const IntegerOption kBand("band", 0, 0, 65536, "rows on both sides of its own that a patch sees");

AxisRule all_of_axis() {
  return {[](std::int64_t, std::int64_t length) { return AxisKeys{0, length}; }};
}

AxisRule within(std::int64_t reach) {
  return {[reach](std::int64_t position, std::int64_t length) {
    const std::int64_t begin = std::max<std::int64_t>(0, position - reach);
    return AxisKeys{begin, std::min(length, position + reach + 1) - begin};
  }};
}

std::unique_ptr<KeyPattern> rows_pattern(std::int64_t band) {
  return std::make_unique<AxisPattern>(within(band), all_of_axis());
}

std::unique_ptr<KeyPattern> columns_pattern() {
  return std::make_unique<AxisPattern>(all_of_axis(), within(0));
}

/// Rows in a first pass, the rest of the column in a second one.
class MergedPattern final : public KeyPattern {
 public:
  explicit MergedPattern(std::int64_t band) : band_(band), rows_(rows_pattern(band)) {}

  [[nodiscard]] at::Tensor rows(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const override {
    return rows_->rows(grid, first, count).logical_or(columns_pattern()->rows(grid, first, count));
  }

  [[nodiscard]] std::vector<std::vector<KeyGroups>> passes(const TokenGrid& grid) const override {
    auto passes = rows_->passes(grid);
    if (grid.rows <= band_ + 1) return passes;
    const at::Tensor row = at::arange(grid.rows, at::kLong);
    const at::Tensor columns =
        at::arange(grid.columns, at::kLong).unsqueeze(1) + row * grid.columns;
    const at::Tensor distance = (row.unsqueeze(0) - row.unsqueeze(1)).abs();
    passes.push_back({{columns, columns, distance > band_}});
    return passes;
  }

  [[nodiscard]] double num_pairs(const TokenGrid& grid) const override {
    double both = 0;  // pairs of a column that lie in the band, too
    const AxisRule band = within(band_);
    for (std::int64_t row = 0; row < grid.rows; ++row)
      both += static_cast<double>(band.keys(row, grid.rows).count);
    return rows_->num_pairs(grid) + columns_pattern()->num_pairs(grid) -
           both * static_cast<double>(grid.columns);
  }

 private:
  std::int64_t band_;
  std::unique_ptr<KeyPattern> rows_;
};

std::vector<HeadPattern> strided_heads(const MechanismOptions& options, const SparseLayer& layer) {
  const std::int64_t band = kBand(options);
  const std::int64_t half = (layer.num_heads + 1) / 2;
  std::vector<HeadPattern> heads;
  switch (kCombine(options)) {
    case Combine::merged:
      heads.push_back({layer.num_heads, std::make_unique<MergedPattern>(band)});
      break;
    case Combine::heads:
      heads.push_back({half, rows_pattern(band)});
      if (half < layer.num_heads) heads.push_back({layer.num_heads - half, columns_pattern()});
      break;
    case Combine::rows: heads.push_back({layer.num_heads, rows_pattern(band)}); break;
    case Combine::columns: heads.push_back({layer.num_heads, columns_pattern()}); break;
  }
  return heads;
}

const MechanismRegistration kStrided(sparse_mechanism(
    {.name = "strided",
     .aliases = {"axial", "sparse_transformer"},
     .summary = "softmax attention over the query's row and column, O(N D (R + C))",
     .citation = "Child et al. 2019, Generating Long Sequences with Sparse Transformers, arXiv "
                 "1904.10509; Ho et al. 2019, Axial Attention in Multidimensional Transformers, "
                 "arXiv 1912.12180",
     .options = {kCombine, kBand},
     .map_definition =
         "A_h = softmax(q_h k_h^T / sqrt(d)) over the query's row, its column and the "
         "prefix tokens, 0 elsewhere; rows of prefix tokens over all"},
    strided_heads));

}  // namespace
}  // namespace hydrascope::model
