#include "tests/model/attention/twins/position_twins.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;

constexpr double kPi = std::numbers::pi;

struct Place {
  bool is_patch;
  std::int64_t row, column;
};

struct RuleProblem {
  model::MechanismOptions options;
  model::TokenGrid grid;
  RuleLayer layer;
  const Parameters& parameters;
  std::int64_t heads, head_dim;

  [[nodiscard]] Place place(std::int64_t token) const {
    const std::int64_t patch = token - grid.num_prefix;
    if (patch < 0) return {false, 0, 0};
    return {true, patch / grid.columns, patch % grid.columns};
  }
  [[nodiscard]] double root() const { return std::sqrt(static_cast<double>(head_dim)); }
};

/// q_i and k_j are (B, H, d); returns s_ij (B, H).
using PairScore = std::function<Tensor(const RuleProblem&, const Tensor& q, const Tensor& k,
                                       const Place& query, const Place& key)>;

Tensor product(const Tensor& a, const Tensor& b) { return (a * b).sum(-1); }

Tensor by_head(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

double distance(const Place& query, const Place& key) {
  if (!query.is_patch || !key.is_patch) return 0;
  return std::hypot(static_cast<double>(query.row - key.row),
                    static_cast<double>(query.column - key.column));
}

// ---- rotary

/// One token's x (B, H, d), each pair of features turned as a complex number.
Tensor rotated(const RuleProblem& p, const Tensor& x, const Place& place) {
  if (!place.is_patch) return x;
  const auto coordinate = [&](std::int64_t index, std::int64_t now, std::int64_t trained) {
    const std::string how = p.options.text("coords");
    const auto i = static_cast<double>(index);
    const auto n = static_cast<double>(now);
    if (how == "train") return i * static_cast<double>(trained) / n;
    return how == "unit" ? 2 * kPi * (2 * (i + 0.5) / n - 1) : i;
  };
  const double row = coordinate(place.row, p.grid.rows, p.layer.training.rows);
  const double column = coordinate(place.column, p.grid.columns, p.layer.training.columns);
  const bool rows_first = p.options.text("order") == "ij";
  const double first = rows_first ? row : column;
  const double second = rows_first ? column : row;
  const std::int64_t pairs = p.head_dim / 2;
  const double scale = p.options.number("scale");
  std::vector<Tensor> features(static_cast<std::size_t>(p.head_dim));
  for (std::int64_t n = 0; n < pairs; ++n) {
    Tensor angle;  // (H)
    if (p.options.text("variant") == "mixed") {
      const Tensor& freqs = p.parameters.at("rope.freqs");
      angle = (first * freqs.select(0, 0).select(1, n) + second * freqs.select(0, 1).select(1, n)) *
              scale;
    } else {
      const std::int64_t of_axis = n % (pairs / 2);
      const double frequency =
          std::pow(p.options.number("base"),
                   -static_cast<double>(of_axis) / (static_cast<double>(p.head_dim) / 4));
      angle =
          at::full({p.heads}, (n < pairs / 2 ? first : second) * frequency * scale, at::kDouble);
    }
    const bool neighbours = p.options.text("layout") == "pairs";
    const std::int64_t one = neighbours ? 2 * n : n;
    const std::int64_t other = neighbours ? 2 * n + 1 : n + pairs;
    const Tensor a = x.select(2, one);
    const Tensor b = x.select(2, other);
    features[static_cast<std::size_t>(one)] = a * angle.cos() - b * angle.sin();
    features[static_cast<std::size_t>(other)] = b * angle.cos() + a * angle.sin();
  }
  return at::stack(features, 2);
}

Tensor rope(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
            const Place& key) {
  return product(rotated(p, q, query), rotated(p, k, key)) / p.root();
}

// ---- biases

Tensor alibi(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
             const Place& key) {
  // The published slopes, spelled out.
  static const std::map<std::int64_t, std::vector<double>> slopes{
      {1, {1.0 / 256}},
      {2, {1.0 / 16, 1.0 / 256}},
      {3, {1.0 / 16, 1.0 / 256, 1.0 / 4}},
      {6, {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8}},
      {8, {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256}}};
  return product(q, k) / p.root() -
         by_head(slopes.at(p.heads)) * (p.options.number("strength") * distance(query, key));
}

/// The direction in which head h looks, in degrees counter-clockwise from the right, by the order of the authors' code.
Tensor lookhere(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
                const Place& key) {
  struct Head {
    double slope;
    double direction;  // NaN: all around
  };
  const double around = std::numeric_limits<double>::quiet_NaN();
  const std::string view = p.options.text("view");
  std::vector<double> first{90, 270, 180, 0};  // up, down, left, right
  std::vector<double> second{45, 135, 315, 225};
  if (view == "90") {
    first = {135, 45, 225, 315};
    second = {90, 270, 180, 0};
  }
  if (view == "45") {
    first = {112.5, 247.5, 157.5, 22.5};
    second = {67.5, 292.5, 202.5, 337.5};
  }
  std::vector<Head> heads;
  const auto look = [&](double slope, const std::vector<double>& directions) {
    for (const double direction : directions) heads.push_back({slope, direction});
  };
  if (p.heads == 3) {
    heads = {{1.0 / 2, first[0]}, {1.0 / 2, first[1]}};
  } else {
    look(1.0 / 2, first);
    if (p.heads == 16) look(1.0 / 4, first);
    if (p.heads >= 12) look(1.0 / 2, second);
  }
  for (double slope = 1.0 / 4; std::cmp_less(heads.size(), p.heads); slope /= 4)
    heads.push_back({slope, around});
  const double of_layer =
      1.5 - static_cast<double>(p.layer.index) / static_cast<double>(p.layer.depth - 1);
  std::vector<double> bias;
  for (const Head& head : heads) {
    bias.push_back(-head.slope * of_layer * p.options.number("strength") * distance(query, key));
    if (view == "none" || std::isnan(head.direction) || distance(query, key) == 0) continue;
    const double angle = std::atan2(static_cast<double>(query.row - key.row),
                                    static_cast<double>(key.column - query.column)) *
                         180 / kPi;
    const double away = std::abs(std::remainder(angle - head.direction, 360));
    if (away > std::stod(view) / 2 + 1e-9) bias.back() = -std::numeric_limits<double>::infinity();
  }
  return product(q, k) / p.root() + by_head(bias);
}

std::int64_t t5_bucket(std::int64_t key_minus_query) {
  const std::int64_t n = std::abs(key_minus_query);
  std::int64_t bucket = n;
  if (n >= 8) {
    const double far = std::log(static_cast<double>(n) / 8) / std::log(128.0 / 8) * 8;
    bucket = std::min<std::int64_t>(15, 8 + static_cast<std::int64_t>(far));
  }
  return bucket + (key_minus_query > 0 ? 16 : 0);
}

Tensor relbias(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
               const Place& key) {
  const Tensor scores = product(q, k) / p.root();
  const std::int64_t rows = query.row - key.row;
  const std::int64_t columns = query.column - key.column;
  const bool patches = query.is_patch && key.is_patch;
  if (p.options.text("table") == "t5") {
    if (!patches) return scores;
    return scores + p.parameters.at("rel_pos.rows")[t5_bucket(-rows)] +
           p.parameters.at("rel_pos.columns")[t5_bucket(-columns)];
  }
  if (p.options.text("table") == "mlp") {
    if (!patches) return scores;
    const auto log = [](std::int64_t x) {
      const double size = std::log(1 + static_cast<double>(std::abs(x)));
      return x < 0 ? -size : size;
    };
    const Tensor input = at::tensor({log(rows), log(columns)}, at::kDouble);
    const Tensor hidden = at::relu(at::mv(p.parameters.at("rel_pos.mlp.fc1.weight"), input) +
                                   p.parameters.at("rel_pos.mlp.fc1.bias"));
    return scores + at::mv(p.parameters.at("rel_pos.mlp.fc2.weight"), hidden) +
           p.parameters.at("rel_pos.mlp.fc2.bias");
  }
  const Tensor& table = p.parameters.at("rel_pos.relative_position_bias_table");
  const std::int64_t width = 2 * p.grid.columns - 1;
  const std::int64_t offsets = (2 * p.grid.rows - 1) * width;
  if (patches)
    return scores + table[(rows + p.grid.rows - 1) * width + columns + p.grid.columns - 1];
  if (query.is_patch) return scores + table[offsets + 1];
  return scores + table[key.is_patch ? offsets : offsets + 2];
}

// ---- rules of content

Tensor entry(const Tensor& table, std::int64_t offset) {
  const std::int64_t farthest = (table.size(0) - 1) / 2;
  return table[std::clamp(offset, -farthest, farthest) + farthest];
}

Tensor shaw(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
            const Place& key) {
  const Tensor scores = product(q, k) / p.root();
  if (!query.is_patch || !key.is_patch) return scores;
  const Tensor vector = entry(p.parameters.at("rel_pos_h"), query.row - key.row) +
                        entry(p.parameters.at("rel_pos_w"), query.column - key.column);
  return scores + product(q, vector) / (p.options.text("scaled") == "on" ? p.root() : 1);
}

/// r_ij of Shaw's values, (d).
Tensor shaw_value(const RuleProblem& p, const Place& query, const Place& key) {
  if (!query.is_patch || !key.is_patch) return at::zeros({p.head_dim}, at::kDouble);
  return entry(p.parameters.at("rel_pos_value_h"), query.row - key.row) +
         entry(p.parameters.at("rel_pos_value_w"), query.column - key.column);
}

Tensor transformer_xl(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
                      const Place& key) {
  const Tensor& u = p.parameters.at("xl.u");
  const Tensor& v = p.parameters.at("xl.v");
  Tensor sum = product(q + u, k);
  if (query.is_patch && key.is_patch) {
    const std::int64_t dim = p.heads * p.head_dim;
    std::vector<double> sinusoid;
    for (const std::int64_t offset : {query.row - key.row, query.column - key.column}) {
      for (const bool is_sine : {true, false}) {
        for (std::int64_t n = 0; n < dim / 4; ++n) {
          const double x = static_cast<double>(offset) *
                           std::pow(p.options.number("base"),
                                    -static_cast<double>(n) / static_cast<double>(dim / 4));
          sinusoid.push_back(is_sine ? std::sin(x) : std::cos(x));
        }
      }
    }
    const Tensor rho =
        at::mv(p.parameters.at("xl.weight"), by_head(sinusoid)).view({p.heads, p.head_dim});
    sum = sum + product(q + v, rho);
  }
  return sum / p.root();
}

Tensor distance_aware(const RuleProblem& p, const Tensor& q, const Tensor& k, const Place& query,
                      const Place& key) {
  const Tensor& beta = p.parameters.at("da.beta");
  const Tensor x = p.parameters.at("da.alpha") * distance(query, key);
  const Tensor factor = (1 + beta.exp()) / (1 + (beta - x).exp());
  const Tensor scores = product(q, k);
  return (p.options.text("positive") == "on" ? at::relu(scores) : scores) * factor / p.root();
}

const PairScore& twin_of(const std::string& rule) {
  static const std::map<std::string, PairScore> twins{{"alibi", alibi},
                                                      {"da", distance_aware},
                                                      {"lookhere", lookhere},
                                                      {"relbias", relbias},
                                                      {"rope", rope},
                                                      {"shaw", shaw},
                                                      {"transformer_xl", transformer_xl}};
  return twins.at(rule);
}

}  // namespace

RuledPairs position_pairs(const model::PositionSpec& rule, const Tensor& q, const Tensor& k,
                          const model::TokenGrid& grid, const RuleLayer& layer,
                          const Parameters& parameters) {
  const RuleProblem p{model::position_options(rule), grid, layer, parameters, q.size(1), q.size(3)};
  const PairScore& score = twin_of(rule.rule);
  const bool adds_values = rule.rule == "shaw" && p.options.text("values") == "on";
  RuledPairs pairs;
  std::vector<Tensor> score_rows, value_rows;
  for (std::int64_t i = 0; i < q.size(2); ++i) {
    std::vector<Tensor> scores, values;
    for (std::int64_t j = 0; j < k.size(2); ++j) {
      scores.push_back(score(p, q.select(2, i), k.select(2, j), p.place(i), p.place(j)));
      if (adds_values) values.push_back(shaw_value(p, p.place(i), p.place(j)));
    }
    score_rows.push_back(at::stack(scores, 2));
    if (adds_values) value_rows.push_back(at::stack(values));
  }
  pairs.scores = at::stack(score_rows, 2);
  if (adds_values) pairs.values = at::stack(value_rows);
  return pairs;
}

Tensor averaged(const Tensor& weights, const Tensor& v, const RuledPairs& pairs) {
  Tensor y = at::matmul(weights, v);
  if (pairs.values.defined()) y = y + (weights.unsqueeze(-1) * pairs.values).sum(3);
  return y.transpose(1, 2).flatten(2);
}

Tensor position_twin(const model::PositionSpec& rule, const Tensor& q, const Tensor& k,
                     const Tensor& v, const model::TokenGrid& grid, const RuleLayer& layer,
                     const Parameters& parameters) {
  const RuledPairs pairs = position_pairs(rule, q, k, grid, layer, parameters);
  return averaged(at::softmax(pairs.scores, -1), v, pairs);
}

Tensor position_turned(const model::PositionSpec& rule, const Tensor& x,
                       const model::TokenGrid& grid, const RuleLayer& layer,
                       const Parameters& parameters) {
  if (rule.rule != "rope") return x;
  const RuleProblem p{model::position_options(rule), grid, layer, parameters, x.size(1), x.size(3)};
  std::vector<Tensor> tokens;
  for (std::int64_t i = 0; i < x.size(2); ++i)
    tokens.push_back(rotated(p, x.select(2, i), p.place(i)));
  return at::stack(tokens, 2);
}

}  // namespace hydrascope::testing
