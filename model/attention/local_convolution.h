// The local term of a global mechanism: a depthwise convolution over the patch grid, added to what
// the mechanism gives. Linear attention hands every query sums over all tokens, so that what lies
// next to it cannot weigh more than the rest; the convolution of the values gives that back for
// s^2 multiply-adds per feature (FLatten Transformer, Han et al. 2023, arXiv 2308.00442, equation
// 7, where it is to raise the rank of the attention).
//   y_i += sum_d w_d * v_(i + d)     d = the s x s displacements around 0, one w per feature
// Patches of the picture see those of the picture, patches of an overview those of the overview;
// what would lie outside counts as zero. Prefix tokens have no place in the grid and no local term.
#pragma once

#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model {

/// x (B, N, D) -> (B, N, D), zeros at prefix tokens; `weight` (D, s, s), s odd, in x's type.
at::Tensor local_convolution(const at::Tensor& x, const at::Tensor& weight, const TokenGrid& grid);

/// The same as a sum of the terms that follow.
at::Tensor local_convolution_reference(const at::Tensor& x, const at::Tensor& weight,
                                       const TokenGrid& grid);

/// The terms of that sum for weights of one: x (B, N, D) -> (B, N, D, s^2).
at::Tensor neighbouring_values(const at::Tensor& x, std::int64_t size, const TokenGrid& grid);

/// A run of tokens that a query's local term sees.
struct Neighbours {
  std::int64_t token;  ///< the first of them
  at::Tensor weights;  ///< (count, D)
  [[nodiscard]] std::int64_t count() const { return weights.size(0); }
};
/// Of a token: a run for each row of the grid, none for prefix tokens.
std::vector<Neighbours> neighbours_of(std::int64_t query, const at::Tensor& weight,
                                      const TokenGrid& grid);

}  // namespace hydrascope::model
