#include "tests/model/attention/twins/twin_problem.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;

/// Is patch `key` seen from patch `query`, by head h?
using PatchSees = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;

/// Softmax over the prefix tokens and the patches that are seen.
Tensor softmax_over_some(const Problem& p, const PatchSees& sees) {
  const std::int64_t prefix = p.grid.num_prefix;
  const std::int64_t overview = prefix + p.num_patches();
  const std::int64_t tokens = p.num_tokens();
  Tensor scores = all_pairs(p.q, p.k) / std::sqrt(static_cast<double>(p.head_dim()));
  Tensor factors = at::ones({p.num_heads(), tokens, 1}, at::kDouble);
  Tensor added = at::zeros({p.num_heads(), tokens, tokens}, at::kDouble);
  auto value = added.accessor<double, 3>();
  const double unseen = -std::numeric_limits<double>::infinity();
  const std::string rows = p.options.text("prefix_rows");
  const double ratio = std::log(static_cast<double>(tokens)) /
                       std::log(static_cast<double>(p.training.num_tokens()));
  for (std::int64_t h = 0; h < p.num_heads(); ++h) {
    for (std::int64_t i = 0; i < prefix && rows != "plain" && ratio > 1; ++i) {
      const bool learned = rows == "learned";
      const double g = learned ? p.parameters.at("prefix_rows.gain")[h].item<double>() : 1;
      const double b = learned ? p.parameters.at("prefix_rows.overview")[h].item<double>() : 0;
      factors[h][i] = 1 + g * (ratio - 1);
      for (std::int64_t j = overview; j < tokens; ++j)
        value[h][i][j] = std::log(static_cast<double>(p.num_patches())) -
                         std::log(static_cast<double>(tokens - overview)) + b;
    }
    for (std::int64_t i = prefix; i < tokens; ++i) {
      for (std::int64_t j = prefix; j < tokens; ++j) {
        const bool both_native = i < overview && j < overview;
        const bool both_overview = i >= overview && j >= overview;
        const bool near = both_native && sees(h, i - prefix, j - prefix);
        if (!near && !both_overview) value[h][i][j] = unseen;
      }
    }
  }
  return side_by_side(at::matmul(at::softmax(scores * factors + added, -1), p.v));
}

/// Is position `key` of an axis seen from position `query`?
using AxisSees = std::function<bool(std::int64_t query, std::int64_t key, std::int64_t length)>;

/// A patch is seen where its row and its column are.
bool sees_both(const Problem& p, const AxisSees& row, const AxisSees& column, std::int64_t query,
               std::int64_t key) {
  const std::int64_t columns = p.grid.columns;
  return row(query / columns, key / columns, p.grid.rows) &&
         column(query % columns, key % columns, columns);
}

// Swin's windows on balanced intervals; mixers under test are of layer 1, which alternate shifts.
Tensor window(const Problem& p) {
  const auto [size_rows, size_columns] = p.options.extent("size", p.training);
  const std::int64_t halo = p.options.integer("halo");
  const bool shifted = p.options.text("shift") == "alternate";
  const auto along = [=](std::int64_t size) -> AxisSees {
    return [=](std::int64_t query, std::int64_t key, std::int64_t length) {
      const std::int64_t count = (length + size - 1) / size;
      std::vector<std::int64_t> borders;
      for (std::int64_t t = 0; t <= count; ++t) borders.push_back(t * length / count);
      if (shifted && count > 1) {
        std::vector<std::int64_t> moved{0};
        for (std::size_t t = 0; t + 1 < borders.size(); ++t)
          moved.push_back((borders[t] + borders[t + 1]) / 2);
        moved.push_back(length);
        borders = moved;
      }
      for (std::size_t t = 0; t + 1 < borders.size(); ++t) {
        if (borders[t] <= query && query < borders[t + 1])
          return borders[t] - halo <= key && key < borders[t + 1] + halo;
      }
      return false;
    };
  };
  if (p.options.text("order") == "raster") {
    const AxisSees row = along(size_rows * size_columns);
    return softmax_over_some(p, [&](std::int64_t, std::int64_t query, std::int64_t key) {
      return row(query, key, p.num_patches());
    });
  }
  return softmax_over_some(p, [&, row = along(size_rows), column = along(size_columns)](
                                  std::int64_t, std::int64_t query, std::int64_t key) {
    return sees_both(p, row, column, query, key);
  });
}

/// NATTEN's neighbourhood: the `window` nearest positions of the query's phase, or the centred ones.
AxisSees near(std::int64_t window, std::int64_t dilation, bool clips) {
  return [=](std::int64_t query, std::int64_t key, std::int64_t length) {
    if (key % dilation != query % dilation) return false;
    std::int64_t first = query / dilation - window / 2;
    if (!clips) {
      std::int64_t positions = 0;
      for (std::int64_t x = query % dilation; x < length; x += dilation) ++positions;
      if (window >= positions) return true;
      first = std::min(std::max<std::int64_t>(first, 0), positions - window);
    }
    return first <= key / dilation && key / dilation < first + window;
  };
}

Tensor neighborhoods(const Problem& p, std::int64_t rows, std::int64_t columns) {
  const bool clips = p.options.text("border") == "clip";
  const std::int64_t dilated = p.options.integer("dilated_heads");
  return softmax_over_some(p, [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    const bool dilates = dilated == 0 || head >= p.num_heads() - dilated;
    const std::int64_t dilation = dilates ? p.options.integer("dilation") : 1;
    return sees_both(p, near(rows, dilation, clips), near(columns, dilation, clips), query, key);
  });
}

Tensor neighborhood(const Problem& p) {
  const auto [rows, columns] = p.options.extent("window", p.training);
  return neighborhoods(p, rows, columns);
}

// The last of two layers, as which mixers are tested: the last window, made odd, and dilation.
Tensor longformer(const Problem& p) {
  const auto [rows, columns] = p.options.extent("window", p.training);
  return neighborhoods(p, rows % 2 == 0 ? rows + 1 : rows,
                       columns % 2 == 0 ? columns + 1 : columns);
}

/// The balanced tile of a patch, by its row and column among the tiles, and the borders of that tile.
struct Tile {
  std::int64_t row, column, rows, columns;
  std::int64_t top, bottom, left, right;
};

Tile tile_of(const Problem& p, std::int64_t patch, std::int64_t size_rows,
             std::int64_t size_columns) {
  const auto along = [](std::int64_t position, std::int64_t length, std::int64_t size) {
    const std::int64_t count = (length + size - 1) / size;
    std::int64_t t = 0;
    while ((t + 1) * length / count <= position) ++t;
    return std::array<std::int64_t, 4>{t, count, t * length / count, (t + 1) * length / count};
  };
  const auto r = along(patch / p.grid.columns, p.grid.rows, size_rows);
  const auto c = along(patch % p.grid.columns, p.grid.columns, size_columns);
  return {r[0], c[0], r[1], c[1], r[2], r[3], c[2], c[3]};
}

// Child et al., fixed: the own tile, and the patches that are among the nearest to any tile's centre.
Tensor fixed(const Problem& p) {
  const auto [rows, columns] = p.options.extent("block", p.training);
  const std::int64_t summary = p.options.integer("summary");
  std::vector<bool> central;
  for (std::int64_t patch = 0; patch < p.num_patches(); ++patch) {
    const Tile tile = tile_of(p, patch, rows, columns);
    const auto distance = [&](std::int64_t r, std::int64_t c) {
      const double down =
          static_cast<double>(r) - 0.5 * static_cast<double>(tile.top + tile.bottom - 1);
      const double right =
          static_cast<double>(c) - 0.5 * static_cast<double>(tile.left + tile.right - 1);
      return down * down + right * right;
    };
    const std::int64_t row = patch / p.grid.columns;
    const std::int64_t column = patch % p.grid.columns;
    std::int64_t nearer = 0;
    for (std::int64_t r = tile.top; r < tile.bottom; ++r) {
      for (std::int64_t c = tile.left; c < tile.right; ++c) {
        const double other = distance(r, c) - distance(row, column);
        const bool earlier = r < row || (r == row && c < column);
        if (other < 0 || (other == 0 && earlier)) ++nearer;
      }
    }
    central.push_back(nearer < summary);
  }
  const bool halves = p.options.text("combine") == "heads";
  return softmax_over_some(
      p, [&, r = rows, c = columns](std::int64_t head, std::int64_t query, std::int64_t key) {
        const Tile a = tile_of(p, query, r, c);
        const Tile b = tile_of(p, key, r, c);
        const bool same = a.row == b.row && a.column == b.column;
        const bool of_summary = central[static_cast<std::size_t>(key)];
        if (halves) return 2 * head < p.num_heads() ? same : of_summary;
        return same || of_summary;
      });
}

// Qiu et al., blocks permuted by a shift in some heads.
Tensor blockwise(const Problem& p) {
  const auto [rows, columns] = p.options.extent("tile", p.training);
  std::int64_t own = p.options.integer("identity_heads");
  if (own == 0) own = (2 * p.num_heads() + 2) / 3;
  return softmax_over_some(
      p, [&, r = rows, c = columns](std::int64_t head, std::int64_t query, std::int64_t key) {
        const Tile a = tile_of(p, query, r, c);
        const Tile b = tile_of(p, key, r, c);
        const std::int64_t shift = std::max<std::int64_t>(0, head - own + 1);
        return (a.row * a.columns + a.column + shift) % (a.rows * a.columns) ==
               b.row * b.columns + b.column;
      });
}

// Zaheer et al., blocks near the query's and drawn from the others, of layer 1.
Tensor bigbird(const Problem& p) {
  const std::int64_t side = p.options.integer("block");
  const std::int64_t reach = p.options.integer("window_blocks") / 2;
  const std::uint64_t layer =
      split_mix(split_mix(static_cast<std::uint64_t>(p.options.integer("seed"))) ^ 1U);
  return softmax_over_some(p, [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    const Tile a = tile_of(p, query, side, side);
    const Tile b = tile_of(p, key, side, side);
    const auto is_near = [&](std::int64_t block) {
      return std::abs(block / a.columns - a.row) <= reach &&
             std::abs(block % a.columns - a.column) <= reach;
    };
    const std::int64_t wanted = b.row * b.columns + b.column;
    if (is_near(wanted)) return true;
    std::vector<std::int64_t> others;
    for (std::int64_t block = 0; block < a.rows * a.columns; ++block)
      if (!is_near(block)) others.push_back(block);
    std::uint64_t seed = layer;
    if (p.options.text("random") == "head")
      seed = split_mix(layer ^ static_cast<std::uint64_t>(head));
    const auto block = static_cast<std::uint64_t>(a.row * a.columns + a.column);
    for (std::int64_t draw = 0; draw < p.options.integer("random_blocks"); ++draw) {
      const std::uint64_t random =
          split_mix(split_mix(seed ^ block) ^ static_cast<std::uint64_t>(draw));
      const std::uint64_t at = random % others.size();
      if (others[at] == wanted) return true;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
      if (others.empty()) return false;
    }
    return false;
  });
}

// Child et al., strided by the picture's width.
Tensor strided(const Problem& p) {
  const std::string combine = p.options.text("combine");
  const std::int64_t band = p.options.integer("band");
  return softmax_over_some(p, [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    const std::int64_t columns = p.grid.columns;
    const bool row = std::abs(query / columns - key / columns) <= band;
    const bool column = query % columns == key % columns;
    if (combine == "merged") return row || column;
    const bool of_rows = combine == "rows" || (combine == "heads" && 2 * head < p.num_heads());
    return of_rows ? row : column;
  });
}

}  // namespace

bool in_neighborhood(const Problem& p, std::int64_t rows, std::int64_t columns, bool clips,
                     std::int64_t query, std::int64_t key) {
  return sees_both(p, near(rows, 1, clips), near(columns, 1, clips), query, key);
}

const std::map<std::string, Twin, std::less<>>& sparse_twins() {
  static const std::map<std::string, Twin, std::less<>> table{
      {"window", window},  {"neighborhood", neighborhood}, {"longformer", longformer},
      {"fixed", fixed},    {"blockwise", blockwise},       {"bigbird", bigbird},
      {"strided", strided}};
  return table;
}

}  // namespace hydrascope::testing
