#include "tests/model/attention/twins/twin_problem.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;
using Rows = std::vector<std::vector<double>>;

/// Softmax over what is seen: `sees` (B or 1, H, N, N) bool, `k` in place of the problem's.
Tensor softmax_of_seen(const Problem& p, const Tensor& k, const Tensor& sees, double own = 0) {
  const Tensor scores = all_pairs(p.q, k) / std::sqrt(static_cast<double>(p.head_dim())) -
                        own * at::eye(p.num_tokens(), at::kDouble);
  const Tensor masked =
      at::where(sees, scores, at::full({}, -std::numeric_limits<double>::infinity(), at::kDouble));
  return side_by_side(at::matmul(at::softmax(masked, -1), p.v));
}

/// Prefix tokens see all and are seen by all, (B, H, N, N).
Tensor prefix_alone(const Problem& p) {
  Tensor sees = at::zeros({p.q.size(0), p.num_heads(), p.num_tokens(), p.num_tokens()}, at::kBool);
  sees.narrow(2, 0, p.grid.num_prefix).fill_(true);
  sees.narrow(3, 0, p.grid.num_prefix).fill_(true);
  return sees;
}

/// The patches of one image and head of x (B, H, N, d).
Rows patches_of(const Problem& p, const Tensor& x, std::int64_t image, std::int64_t head) {
  Rows rows;
  const Tensor one = x.detach()[image][head].contiguous();
  const double* values = one.const_data_ptr<double>();
  for (std::int64_t i = p.grid.num_prefix; i < one.size(0); ++i)
    rows.emplace_back(values + i * one.size(1), values + (i + 1) * one.size(1));
  return rows;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> unit(std::vector<double> x) {
  const double norm = std::max(1e-12, std::sqrt(dot(x, x)));
  for (double& value : x) value /= norm;
  return x;
}

/// The register whose cells hold a patch.
std::int64_t region_of(const Problem& p, std::int64_t patch) {
  const std::int64_t registers = p.grid.num_registers;
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(registers)));
  std::int64_t rows = std::min(side, p.grid.rows);
  const std::int64_t columns = std::min(registers / rows, p.grid.columns);
  rows = std::min(registers / columns, p.grid.rows);
  const std::int64_t row = patch / p.grid.columns * rows / p.grid.rows;
  const std::int64_t column = patch % p.grid.columns * columns / p.grid.columns;
  return (row * columns + column) % registers;
}

// Ainslie et al.: registers are the global tokens of regions.
Tensor etc(const Problem& p) {
  const auto [rows, columns] = p.options.extent("window", p.training);
  const bool clips = p.options.text("border") == "clip";
  const std::int64_t registers = p.options.on("regions") ? p.grid.num_registers : 0;
  const std::int64_t first_register = p.grid.num_prefix - registers;
  Tensor sees = at::zeros({1, 1, p.num_tokens(), p.num_tokens()}, at::kBool);
  auto value = sees.accessor<bool, 4>();
  const auto is_patch = [&](std::int64_t token) { return token >= p.grid.num_prefix; };
  const auto owns = [&](std::int64_t token, std::int64_t patch) {
    return token < first_register ||
           token - first_register == region_of(p, patch - p.grid.num_prefix);
  };
  for (std::int64_t i = 0; i < p.num_tokens(); ++i) {
    for (std::int64_t j = 0; j < p.num_tokens(); ++j) {
      if (is_patch(i) && is_patch(j)) {
        value[0][0][i][j] =
            in_neighborhood(p, rows, columns, clips, i - p.grid.num_prefix, j - p.grid.num_prefix);
      } else if (is_patch(i) || is_patch(j)) {
        value[0][0][i][j] = registers == 0 || (is_patch(i) ? owns(j, i) : owns(i, j));
      } else {
        value[0][0][i][j] = true;
      }
    }
  }
  return softmax_of_seen(p, p.k, sees);
}

// Sukhbaatar et al., equations 4 to 6.
Tensor adaptive_span(const Problem& p) {
  const auto [rows, columns] = p.options.extent("max", p.training);
  const auto most = static_cast<double>(std::max(rows, columns));
  const double ramp = p.options.number("ramp");
  Tensor distance = at::zeros({p.num_tokens(), p.num_tokens()}, at::kDouble);
  auto value = distance.accessor<double, 2>();
  for (std::int64_t i = 0; i < p.num_patches(); ++i) {
    for (std::int64_t j = 0; j < p.num_patches(); ++j) {
      const std::int64_t down = std::abs(i / p.grid.columns - j / p.grid.columns);
      const std::int64_t right = std::abs(i % p.grid.columns - j % p.grid.columns);
      value[p.grid.num_prefix + i][p.grid.num_prefix + j] =
          static_cast<double>(std::max(down, right));
    }
  }
  Tensor z;  // (., H, ., 1)
  if (p.options.on("dynamic")) {
    const Tensor inner = (p.q * p.parameters.at("span.weight").unsqueeze(1)).sum(-1, true) +
                         p.parameters.at("span.bias").view({-1, 1, 1});
    z = most / (1 + (-inner).exp());
  } else {
    z = most * p.parameters.at("span.length").abs().clamp_max(1).view({1, -1, 1, 1});
  }
  const Tensor m = ((ramp + z - distance) / ramp).clamp(0, 1);
  const Tensor weights =
      m * (all_pairs(p.q, p.k) / std::sqrt(static_cast<double>(p.head_dim()))).exp();
  return side_by_side(at::matmul(weights / weights.sum(-1, true), p.v));
}

/// Buckets of one round: for each direction of `pairs` and its opposite the product, the largest wins.
std::vector<std::int64_t> buckets(const Rows& x, const Rows& directions) {
  std::vector<std::int64_t> list;
  for (const std::vector<double>& one : x) {
    std::vector<double> products;
    for (const std::vector<double>& direction : directions) products.push_back(dot(one, direction));
    for (const std::vector<double>& direction : directions)
      products.push_back(-dot(one, direction));
    list.push_back(std::ranges::max_element(products) - products.begin());
  }
  return list;
}

std::uint64_t below(std::uint64_t seed, std::uint64_t index) {
  return split_mix(split_mix(seed) ^ index);
}

/// The random directions of layer 1.
Rows directions(const Problem& p, std::int64_t pairs, std::int64_t round) {
  const std::uint64_t layer = below(static_cast<std::uint64_t>(p.options.integer("seed")), 1);
  const std::uint64_t of_round = below(layer, static_cast<std::uint64_t>(round));
  Rows rows;
  std::uint64_t index = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    rows.emplace_back();
    for (std::int64_t feature = 0; feature < p.head_dim(); ++feature) {
      const std::uint64_t a = split_mix(below(of_round, index++));
      const std::uint64_t b = split_mix(a);
      const auto uniform = [](std::uint64_t bits) {
        return (static_cast<double>(bits / 2048) + 1) / 9007199254740992.0;
      };
      rows.back().push_back(std::sqrt(-2 * std::log(uniform(a))) *
                            std::cos(2 * std::numbers::pi * uniform(b)));
    }
  }
  return rows;
}

/// Places in the order of (bucket, index).
std::vector<std::int64_t> ranks(const std::vector<std::int64_t>& of) {
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < of.size(); ++i) {
    std::int64_t rank = 0;
    for (std::size_t j = 0; j < of.size(); ++j)
      if (of[j] < of[i] || (of[j] == of[i] && j < i)) ++rank;
    list.push_back(rank);
  }
  return list;
}

// Kitaev et al., chunks of sorted buckets.
Tensor reformer(const Problem& p) {
  const std::int64_t chunk = p.options.integer("bucket");
  const bool shares = p.options.on("share_qk");
  const auto n = p.num_patches();
  Tensor sees = prefix_alone(p);
  auto value = sees.accessor<bool, 4>();
  const auto join = [&](std::int64_t image, std::int64_t head, const Rows& q, const Rows& k,
                        std::int64_t round) {
    const Rows rows =
        directions(p, std::max<std::int64_t>(1, (n + 2 * chunk - 1) / (2 * chunk)), round);
    const std::vector<std::int64_t> of_q = buckets(q, rows);
    const std::vector<std::int64_t> of_k = buckets(k, rows);
    const std::vector<std::int64_t> rank_q = ranks(of_q);
    const std::vector<std::int64_t> rank_k = ranks(of_k);
    for (std::size_t i = 0; i < of_q.size(); ++i) {
      const std::int64_t begin = rank_q[i] / chunk * chunk;
      const auto first = std::ranges::find(rank_q, begin) - rank_q.begin();
      const std::int64_t bucket = of_q[static_cast<std::size_t>(first)];
      const auto before = [&](const std::vector<std::int64_t>& of) {
        return std::ranges::count_if(of, [&](std::int64_t one) { return one < bucket; });
      };
      const std::int64_t behind =
          std::min<std::int64_t>(begin - before(of_q), std::ranges::count(of_k, bucket));
      const std::int64_t reach = std::min(3 * chunk, n);
      const std::int64_t from =
          std::clamp<std::int64_t>(before(of_k) + behind - chunk, 0, n - reach);
      for (std::size_t j = 0; j < of_k.size(); ++j) {
        if (of_q[i] == of_k[j] && rank_k[j] >= from && rank_k[j] < from + reach)
          value[image][head][p.grid.num_prefix + static_cast<std::int64_t>(i)]
               [p.grid.num_prefix + static_cast<std::int64_t>(j)] = true;
      }
    }
  };
  for (std::int64_t image = 0; image < p.q.size(0); ++image) {
    for (std::int64_t head = 0; head < p.num_heads(); ++head) {
      const Rows q = patches_of(p, p.q, image, head);
      const Rows k = shares ? q : patches_of(p, p.k, image, head);
      for (std::int64_t round = 0; round < p.options.integer("rounds"); ++round)
        join(image, head, q, k, round);
    }
  }
  sees.diagonal(0, 2, 3).fill_(true);
  const Tensor unit_q = p.q / (p.q * p.q).sum(-1, true).sqrt().clamp_min(1e-12);
  return softmax_of_seen(p, shares ? unit_q : p.k, sees, shares ? 1e5 : 0);
}

std::size_t most_like(const Rows& rows, const std::vector<double>& x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (dot(rows[i], x) > dot(rows[best], x)) best = i;
  return best;
}

std::vector<double> sum_of(const Rows& rows, std::size_t width) {
  std::vector<double> sum(width);
  for (const std::vector<double>& row : rows)
    for (std::size_t f = 0; f < width; ++f) sum[f] += row[f];
  return sum;
}

Rows centroids_of(const Rows& keys, std::size_t count, std::int64_t steps) {
  Rows centroids{keys[most_like(keys, sum_of(keys, keys.front().size()))]};
  while (centroids.size() < count) {
    std::vector<double> nearest;
    for (const std::vector<double>& key : keys)
      nearest.push_back(dot(centroids[most_like(centroids, key)], key));
    centroids.push_back(
        keys[static_cast<std::size_t>(std::ranges::min_element(nearest) - nearest.begin())]);
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Rows> members(count);
    for (const std::vector<double>& key : keys) members[most_like(centroids, key)].push_back(key);
    for (std::size_t c = 0; c < count; ++c)
      if (!members[c].empty()) centroids[c] = unit(sum_of(members[c], keys.front().size()));
  }
  return centroids;
}

// Roy et al., with centroids of each image's own keys.
Tensor routing(const Problem& p) {
  const auto n = static_cast<std::size_t>(p.num_patches());
  const auto [rows, columns] = p.options.extent("window", p.training);
  const auto local = static_cast<std::int64_t>(
      std::round(p.options.number("local_heads") * static_cast<double>(p.num_heads())));
  auto count = static_cast<std::size_t>(p.options.integer("clusters"));
  if (count == 0) count = static_cast<std::size_t>(std::round(std::sqrt(static_cast<double>(n))));
  count = std::clamp<std::size_t>(count, 1, std::max<std::size_t>(1, n));
  const std::size_t size = (n + count - 1) / count;
  Tensor sees = prefix_alone(p);
  auto value = sees.accessor<bool, 4>();
  const auto set = [&](std::int64_t image, std::int64_t head, std::size_t i, std::size_t j) {
    value[image][head][p.grid.num_prefix + static_cast<std::int64_t>(i)]
         [p.grid.num_prefix + static_cast<std::int64_t>(j)] = true;
  };
  for (std::int64_t image = 0; image < p.q.size(0) && n > 0; ++image) {
    for (std::int64_t head = 0; head < p.num_heads(); ++head) {
      if (head >= p.num_heads() - local) {
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j)
            if (in_neighborhood(p, rows, columns, false, static_cast<std::int64_t>(i),
                                static_cast<std::int64_t>(j)))
              set(image, head, i, j);
        continue;
      }
      const Rows q = patches_of(p, p.q, image, head);
      Rows keys = patches_of(p, p.k, image, head);
      for (std::vector<double>& key : keys) key = unit(key);
      const Rows centroids = centroids_of(keys, count, p.options.integer("steps"));
      std::vector<std::vector<std::size_t>> nearest;
      for (const std::vector<double>& centre : centroids) {
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, std::greater<>(),
                          [&](std::size_t j) { return dot(keys[j], centre); });
        order.resize(size);
        nearest.push_back(std::move(order));
      }
      for (std::size_t i = 0; i < n; ++i)
        for (const std::size_t j : nearest[most_like(centroids, q[i])]) set(image, head, i, j);
    }
  }
  sees.diagonal(0, 2, 3).fill_(true);
  return softmax_of_seen(p, p.k, sees);
}

/// (B, H, tiles, tiles): how much of one tile lies in another's place, from means by tile.
Tensor sinkhorn_weights(const Problem& p, const Tensor& of_q, const Tensor& of_k) {
  const Tensor scores =
      all_pairs(at::matmul(of_q, p.parameters.at("sort.weight")), of_k) /
      (std::sqrt(static_cast<double>(p.head_dim())) * p.options.number("temperature"));
  Tensor s = scores.exp() * (1 - at::eye(scores.size(2), at::kDouble));
  for (std::int64_t i = 0; i < p.options.integer("iterations"); ++i) {
    s = s / s.sum(2, true);
    s = s / s.sum(3, true);
  }
  return s;
}

// Tay et al.: tiles, and mixtures of the others in their place.
Tensor sinkhorn(const Problem& p) {
  using Tile = std::vector<std::int64_t>;
  const auto [tile_rows, tile_columns] = p.options.extent("tile", p.training);
  const auto prefix = p.grid.num_prefix;
  std::vector<Tile> own, places;  // tokens
  const auto count = [](std::int64_t length, std::int64_t size) {
    return (length + size - 1) / size;
  };
  const std::int64_t down = count(p.grid.rows, tile_rows);
  const std::int64_t right = count(p.grid.columns, tile_columns);
  for (std::int64_t t = 0; t < down * right; ++t) {
    const std::int64_t top = t / right * p.grid.rows / down;
    const std::int64_t rows = (t / right + 1) * p.grid.rows / down - top;
    const std::int64_t left = t % right * p.grid.columns / right;
    const std::int64_t columns = (t % right + 1) * p.grid.columns / right - left;
    const auto token = [&, columns_of_grid = p.grid.columns](std::int64_t r, std::int64_t c) {
      return prefix + (top + r) * columns_of_grid + left + c;
    };
    own.emplace_back();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) own.back().push_back(token(r, c));
    const std::int64_t most_rows = count(p.grid.rows, down);
    const std::int64_t most_columns = count(p.grid.columns, right);
    places.emplace_back();
    for (std::int64_t r = 0; r < most_rows; ++r)
      for (std::int64_t c = 0; c < most_columns; ++c)
        places.back().push_back(token(r * rows / most_rows, c * columns / most_columns));
  }
  const auto take = [](const Tensor& x, const Tile& tokens) {
    return x.index_select(2, at::tensor(tokens, at::kLong));
  };
  const auto means = [&](const Tensor& x) {
    std::vector<Tensor> of_tiles;
    for (const Tile& tile : places) of_tiles.push_back(take(x, tile).mean(2));
    return at::stack(of_tiles, 2);
  };
  const bool sorts = own.size() > 1;
  const Tensor s = sorts ? sinkhorn_weights(p, means(p.q), means(p.k)) : Tensor();
  const auto attend = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor scores = all_pairs(q, k) / std::sqrt(static_cast<double>(p.head_dim()));
    return at::matmul(at::softmax(scores, -1), v);
  };
  Tensor y = at::zeros_like(p.v);
  if (prefix > 0) {
    y = at::cat({attend(p.q.narrow(2, 0, prefix), p.k, p.v), y.slice(2, prefix)}, 2);
  }
  for (std::size_t t = 0; t < own.size(); ++t) {
    const auto all = [&](const Tensor& x) {
      std::vector<Tensor> keys{x.narrow(2, 0, prefix), take(x, own[t])};
      if (!sorts) return at::cat(keys, 2);
      Tensor sum = at::zeros_like(take(x, places[0]));
      for (std::size_t u = 0; u < own.size(); ++u) {
        const Tensor share =
            s.select(2, static_cast<std::int64_t>(t)).select(2, static_cast<std::int64_t>(u));
        sum = sum + take(x, places[u]) * share.unsqueeze(-1).unsqueeze(-1);
      }
      keys.push_back(sum);
      return at::cat(keys, 2);
    };
    y = y.index_copy(2, at::tensor(own[t], at::kLong),
                     attend(take(p.q, own[t]), all(p.k), all(p.v)));
  }
  return side_by_side(y);
}

}  // namespace

const std::map<std::string, Twin, std::less<>>& found_twins() {
  static const std::map<std::string, Twin, std::less<>> table{{"adaptive_span", adaptive_span},
                                                              {"etc", etc},
                                                              {"reformer", reformer},
                                                              {"routing", routing},
                                                              {"sinkhorn", sinkhorn}};
  return table;
}

}  // namespace hydrascope::testing
