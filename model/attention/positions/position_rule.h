// A position rule changes the scores of softmax attention by the places of the two tokens:
//   y_i = sum_j a_ij (v_j + r_ij),    a_i. = softmax_j s_ij,    s_ij = q_i . k_j / sqrt(d) without one
// A rule may turn q and k, change s, and add r. The mixers of the softmax family ask it in `mix`
// and in `attention_rows`, so that maps and explanations made of maps hold it too.
//
// Patches have an offset, query minus key, in rows and columns. A pair with a prefix token has the
// offset 0; the rule's file has its treatment.
#pragma once

#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace hydrascope::model {

/// n queries and m keys of each of G groups, as numbers of tokens, on the CPU. Keys that lie nowhere
/// are -1, and as prefix tokens.
struct TokenPairs {
  TokenGrid grid;
  at::Tensor queries;           ///< (G, n) int64
  at::Tensor keys;              ///< (G, m) int64
  std::int64_t first_head = 0;  ///< the first of the heads that are asked for
};
/// Tokens first .. first + count as queries of all tokens: one group.
TokenPairs pairs_of_rows(const TokenGrid& grid, std::int64_t first, std::int64_t count);

/// Offsets of a group's pairs, query minus key.
struct PatchOffsets {
  at::Tensor rows;     ///< (G, n, m) int64, 0 beside a prefix token
  at::Tensor columns;  ///< the same
  at::Tensor patches;  ///< (G, n, m) bool: both are patches
};
PatchOffsets offsets(const TokenPairs& pairs);
/// Euclidean distances (G, n, m), 0 beside a prefix token.
at::Tensor distances(const TokenPairs& pairs, at::ScalarType type);

/// x . table_t at t = index_ij for every pair: x (B, G, h, n, d) and table (T, d) or (h, T, d), with
/// index (G, n, m) -> (B, G, h, n, m). Nothing of size n x m x d is made.
at::Tensor products_with_entries(const at::Tensor& x, const at::Tensor& table,
                                 const at::Tensor& index);
/// sum_j a_ij table_t at t = index_ij, where `patches` holds: weights (B, G, h, n, m), table (T, d)
/// -> (B, G, h, n, d).
at::Tensor sums_of_entries(const at::Tensor& weights, const at::Tensor& table,
                           const at::Tensor& index, const at::Tensor& patches);

/// Cosines and sines of the angles that patches are turned by, float32 on the CPU:
/// (patches and overview, H or 1, d / 2).
struct Rotation {
  at::Tensor cosine, sine;
  bool neighbours = true;  ///< pair n is features 2n and 2n + 1, else n and n + d / 2
};

class PositionRule {
 public:
  PositionRule() = default;
  PositionRule(const PositionRule&) = delete;
  PositionRule& operator=(const PositionRule&) = delete;
  virtual ~PositionRule() = default;

  /// Queries or keys as the scores take them: x (B, H, n, d), the tokens from `first` on.
  [[nodiscard]] virtual at::Tensor turned(const at::Tensor& x, const TokenGrid& grid,
                                          std::int64_t first) const;
  /// `turned` of patches as a table, for plans that turn by themselves; the whole of such a rule.
  [[nodiscard]] virtual std::optional<Rotation> rotation(const TokenGrid& grid,
                                                         std::int64_t head_dim) const;
  /// Whether `scores` is more than the scaled product.
  [[nodiscard]] virtual bool changes_scores() const { return true; }
  /// s of all pairs: q (B, G, h, n, d) and k (B, G, h, m, d), turned and of the compute type ->
  /// (B, G, h, n, m). Differentiable.
  [[nodiscard]] virtual at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                          const TokenPairs& pairs) const;
  [[nodiscard]] virtual bool adds_values() const { return false; }
  /// sum_j a_ij r_ij of weights (B, G, h, n, m) -> (B, G, h, n, d); only with `adds_values`.
  [[nodiscard]] virtual at::Tensor added_values(const at::Tensor& weights,
                                                const TokenPairs& pairs) const;
  /// g_i . r_ij of g (B, G, h, n, d) -> (B, G, h, n, m); only with `adds_values`.
  [[nodiscard]] virtual at::Tensor value_products(const at::Tensor& g,
                                                  const TokenPairs& pairs) const;

  /// s of tokens first .. first + n with all tokens: their q (B, H, n, d) and k (B, H, N, d), as
  /// the projection gave them -> (B, H, n, N) of the compute type.
  [[nodiscard]] at::Tensor score_rows(const at::Tensor& q, const at::Tensor& k,
                                      const TokenGrid& grid, std::int64_t first) const;
};

/// q . k / sqrt(d) of every pair, as `PositionRule::scores` takes them.
at::Tensor scaled_products(const at::Tensor& q, const at::Tensor& k);

/// Queries or keys (B, H, n, d) as the scores of a rule, or of none, take them: the first tokens, in
/// their own type.
at::Tensor turned_by(const PositionRule* rule, const at::Tensor& x, const TokenGrid& grid);

/// Softmax's steps for pairs under a rule, or under none.
struct ScoredPairs {
  const PositionRule* rule = nullptr;
  TokenPairs pairs = {};

  /// s: q (B, G, h, n, d) and k (B, G, h, m, d), turned -> (B, G, h, n, m) of the compute type.
  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k) const;
  /// y of weights (B, G, h, n, m) and v (B, G, h, m, w) -> (B, G, h, n, w). Values of another width
  /// than `head_dim` are no values of the layer (rollouts): the rule adds nothing to them.
  [[nodiscard]] at::Tensor mixed(const at::Tensor& weights, const at::Tensor& v,
                                 std::int64_t head_dim) const;
};

}  // namespace hydrascope::model
