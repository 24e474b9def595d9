// Common to the files of twins: a twin's arguments and the products that all of them are made of.
#pragma once

#include "model/registry/mechanisms.h"
#include "tests/model/attention/twins/twins.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::testing {

/// The arguments of a twin.
struct Problem {
  model::MechanismOptions options;
  at::Tensor q, k, v;
  model::TokenGrid grid;
  model::TokenGrid training;
  const Parameters& parameters;

  [[nodiscard]] std::int64_t num_heads() const { return q.size(1); }
  [[nodiscard]] std::int64_t num_tokens() const { return q.size(2); }
  [[nodiscard]] std::int64_t head_dim() const { return q.size(3); }
  [[nodiscard]] std::int64_t num_patches() const { return grid.rows * grid.columns; }
};

/// a_i . b_j of all i, j.
inline at::Tensor all_pairs(const at::Tensor& a, const at::Tensor& b) {
  return at::matmul(a, b.transpose(-2, -1));
}

/// (B, H, N, d) -> (B, N, H * d), one head after the other.
inline at::Tensor side_by_side(const at::Tensor& y) {
  std::vector<at::Tensor> heads = y.unbind(1);
  return at::cat(heads, -1);
}

using Twin = at::Tensor (*)(const Problem&);

/// The output of SplitMix64 whose state was x.
inline std::uint64_t split_mix(std::uint64_t x) {
  std::uint64_t z = x + 11400714819323198485U;
  z = (z ^ (z / (std::uint64_t{1} << 30U))) * 13787848793156543929U;
  z = (z ^ (z / (std::uint64_t{1} << 27U))) * 10723151780598845931U;
  return z ^ (z / (std::uint64_t{1} << 31U));
}

/// Is patch `key` in the neighbourhood of patch `query`, of `rows` x `columns` patches?
bool in_neighborhood(const Problem& p, std::int64_t rows, std::int64_t columns, bool clips,
                     std::int64_t query, std::int64_t key);

/// Those that shorten the sequence, by name.
const std::map<std::string, Twin, std::less<>>& short_twins();
/// Those of softmax over some of the patches.
const std::map<std::string, Twin, std::less<>>& sparse_twins();
/// Those whose masks are soft, made of registers, or found in the tokens.
const std::map<std::string, Twin, std::less<>>& found_twins();

}  // namespace hydrascope::testing
