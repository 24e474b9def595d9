#include "tests/model/attention/twins/twin_problem.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;
using model::TokenGrid;

/// (prefix + cells, N): each prefix token alone, then averages over the cells of a grid of about
/// `wanted` cells; cell i of m covers floor(i n / m) up to, not including, ceil((i + 1) n / m).
Tensor cell_averages(const TokenGrid& grid, std::int64_t wanted) {
  const std::int64_t patches = grid.rows * grid.columns;
  if (wanted >= patches) return at::eye(grid.num_tokens(), at::kDouble);
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(wanted)));
  const std::int64_t rows = std::min(side, grid.rows);
  const std::int64_t columns = std::min(wanted / rows, grid.columns);
  Tensor averages = at::zeros({grid.num_prefix + rows * columns, grid.num_tokens()}, at::kDouble);
  for (std::int64_t i = 0; i < grid.num_prefix; ++i) averages[i][i] = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t top = r * grid.rows / rows;
    const std::int64_t bottom = ((r + 1) * grid.rows + rows - 1) / rows;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t left = c * grid.columns / columns;
      const std::int64_t right = ((c + 1) * grid.columns + columns - 1) / columns;
      const double weight = 1 / static_cast<double>((bottom - top) * (right - left));
      for (std::int64_t y = top; y < bottom; ++y) {
        const std::int64_t first = grid.num_prefix + y * grid.columns + left;
        averages[grid.num_prefix + r * columns + c].narrow(0, first, right - left).fill_(weight);
      }
    }
  }
  return averages;
}

/// (to, from): bicubic interpolation along one axis (Keys 1981 with a = -0.75, half-pixel centres,
/// border samples repeated).
Tensor cubic_weights(std::int64_t from, std::int64_t to) {
  const auto keys = [](double x) {
    constexpr double a = -0.75;
    x = std::abs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0.0;
  };
  Tensor weights = at::zeros({to, from}, at::kDouble);
  auto value = weights.accessor<double, 2>();
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const auto floor = static_cast<std::int64_t>(std::floor(centre));
    for (std::int64_t j = floor - 1; j <= floor + 2; ++j)
      value[i][std::clamp<std::int64_t>(j, 0, from - 1)] += keys(centre - static_cast<double>(j));
  }
  return weights;
}

/// (H, prefix + cells, N): averages of cells, in which a patch counts as the kernel (H, s, s) says.
Tensor weighted_cells(const Problem& p, const Tensor& kernel) {
  const std::int64_t wanted = p.options.integer("length");
  const std::int64_t side = kernel.size(1);
  Tensor weights = at::ones({kernel.size(0), 1, p.num_tokens()}, at::kDouble);
  std::int64_t rows = p.grid.rows;
  std::int64_t columns = p.grid.columns;
  if (wanted < p.num_patches()) {
    rows = std::min(static_cast<std::int64_t>(std::sqrt(static_cast<double>(wanted))), rows);
    columns = std::min(wanted / rows, columns);
  }
  std::vector<Tensor> of_tokens(static_cast<std::size_t>(p.grid.num_prefix),
                                at::ones({kernel.size(0)}, at::kDouble));
  for (std::int64_t y = 0; y < p.grid.rows; ++y) {
    for (std::int64_t x = 0; x < p.grid.columns; ++x) {
      // How far down and right in its cell the patch is, in parts of the cell.
      const std::int64_t down = y * rows - y * rows / p.grid.rows * p.grid.rows;
      const std::int64_t right = x * columns - x * columns / p.grid.columns * p.grid.columns;
      of_tokens.push_back(
          kernel.select(1, down * side / p.grid.rows).select(1, right * side / p.grid.columns));
    }
  }
  if (!of_tokens.empty()) weights = at::stack(of_tokens, 1).unsqueeze(1);
  return cell_averages(p.grid, wanted) * weights;
}

// Section 3.14. (m, N), or (prefix + m, N) where prefix tokens stay.
Tensor linformer_projection(const Problem& p, const std::string& side) {
  const std::string& kind = p.options.text("projection");
  if (kind == "pool" || kind == "max") return cell_averages(p.grid, p.options.integer("length"));
  const Tensor& learned =
      p.parameters.at(p.options.on("share_kv") ? "projection.weight" : "projection." + side);
  if (kind == "dense") return learned;
  if (kind == "conv") return weighted_cells(p, learned);
  if (p.num_patches() == 0) return at::eye(p.num_tokens(), at::kDouble);
  Tensor rows = learned;
  if (p.grid.rows != p.training.rows || p.grid.columns != p.training.columns) {
    const Tensor image = learned.view({-1, p.training.rows, p.training.columns});
    const Tensor resized =
        at::matmul(at::matmul(cubic_weights(p.training.rows, p.grid.rows), image),
                   cubic_weights(p.training.columns, p.grid.columns).transpose(0, 1));
    rows = resized.flatten(1);
    rows = rows * (learned.sum(1, true) / rows.sum(1, true));
  }
  const std::int64_t prefix = p.grid.num_prefix;
  Tensor all = at::zeros({prefix + rows.size(0), p.num_tokens()}, at::kDouble);
  for (std::int64_t i = 0; i < prefix; ++i) all[i][i] = 1;
  all.narrow(0, prefix, rows.size(0)).narrow(1, prefix, rows.size(1)).copy_(rows);
  return all;
}

/// The largest values of the patches of each cell.
Tensor cell_maxima(const Problem& p) {
  const Tensor members = cell_averages(p.grid, p.options.integer("length")).ne(0);
  std::vector<Tensor> cells;
  for (const Tensor& cell : members.unbind())
    cells.push_back(p.k.index_select(2, cell.nonzero().flatten()).amax(2));
  return at::stack(cells, 2);
}

Tensor linformer(const Problem& p) {
  const Tensor k = p.options.text("projection") == "max"
                       ? cell_maxima(p)
                       : at::matmul(linformer_projection(p, "k"), p.k);
  const Tensor v = at::matmul(linformer_projection(p, "v"), p.v);
  const Tensor scores = all_pairs(p.q, k) / std::sqrt(static_cast<double>(p.head_dim()));
  return side_by_side(at::matmul(at::softmax(scores, -1), v));
}

// Section 3.15.
Tensor nystrom(const Problem& p) {
  const Tensor averages = cell_averages(p.grid, p.options.integer("landmarks"));
  const Tensor qt = at::matmul(averages, p.q);
  const Tensor kt = at::matmul(averages, p.k);
  const double scale = 1 / std::sqrt(static_cast<double>(p.head_dim()));
  const Tensor left = at::softmax(all_pairs(p.q, kt) * scale, -1);
  const Tensor core = at::softmax(all_pairs(qt, kt) * scale, -1);
  const Tensor right = at::softmax(all_pairs(qt, p.k) * scale, -1);
  const Tensor one_norm = core.abs().sum(-2).amax(-1).unsqueeze(-1).unsqueeze(-1);
  const Tensor inf_norm = core.abs().sum(-1).amax(-1).unsqueeze(-1).unsqueeze(-1);
  const Tensor identity = at::eye(core.size(-1), at::kDouble);
  Tensor z = core.transpose(-2, -1) / (one_norm * inf_norm);
  for (std::int64_t step = 0; step < p.options.integer("iterations"); ++step) {
    const Tensor az = at::matmul(core, z);
    const Tensor inner = 15 * identity - at::matmul(az, 7 * identity - az);
    z = at::matmul(z, 13 * identity - at::matmul(az, inner)) / 4;
  }
  return side_by_side(at::matmul(at::matmul(left, z), at::matmul(right, p.v)));
}

}  // namespace

const std::map<std::string, Twin, std::less<>>& short_twins() {
  static const std::map<std::string, Twin, std::less<>> table{{"linformer", linformer},
                                                              {"nystrom", nystrom}};
  return table;
}

}  // namespace hydrascope::testing
