// Numbers by head about a layer's attention: how sharp its rows are, how near its rows are to the
// softmax of the same queries and keys, whether its rows rank keys as the dot product does, and how
// far the layer is from the layer that it was made from.
//
// Notation: s_ij = q_i . k_j / sqrt(d), P = softmax(s), A the layer's map, y its mixer's output of
// one head; ~ marks the reference's layer. Means are over queries, then over pictures.
//   entropy           -sum_j A_ij ln A_ij, nats
//   entropy_share     entropy / ln N: 0 with all weight on one token, 1 with equal weights
//   softmax_kl        KL(P_i || A_i), nats
//   softmax_cosine    cosine of y_i and sum_j P_ij v_j
//   monotonicity      Spearman's correlation of ln A_i. and s_i.: softmax has 1, and Hedgehog's
//                     distillation wants it (Zhang et al. 2024, arXiv 2402.04347, section 3.2)
//   near_mass         sum_j P_ij over the prefix and the patches around patch i, as far along each
//                     axis as half a window of half the training grid (7x7 of 14x14): the part of
//                     softmax that a layer with such a neighbourhood keeps; 1 - near_mass is lost
//   reference_kl      KL(A~_i || A_i)
//   reference_cosine  cosine of y_i and y~_i
//   reference_error   |y - y~| / |y~| over all queries; a layer's is taken after its projection
//   global_norm       |c|, Hydra's global vector (with its feature scale)
//   class_share       c_0 . c / c . c, the class token's part of c; all tokens' parts sum to 1
// The first six read the tokens that the model itself brings to the layer; the reference's three
// give both layers the reference's input. Entropies and divergences exist for mechanisms whose rows
// are distributions. Weights below 1e-12 count as 1e-12 in logarithms.
//
// Memory O(chunk x N): long sequences are judged by 256 queries in 8 runs spread over them, the
// class token's among them.
// Test: tests/model/explain/diagnostics_test.cpp.
#pragma once

#include "model/attention/token_grid.h"
#include "model/block.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace hydrascope::model::explain {

enum class Diagnostic : std::int64_t {
  entropy,
  entropy_share,
  softmax_kl,
  softmax_cosine,
  monotonicity,
  near_mass,
  reference_kl,
  reference_cosine,
  reference_error,
  global_norm,
  class_share
};

struct DiagnosticEntry {
  Diagnostic diagnostic;
  std::string_view name;     ///< "entropy_share"
  std::string_view title;    ///< a column's: "entropy / ln N"
  std::string_view summary;  ///< a line for people
};
/// In the order of the enumeration.
const std::vector<DiagnosticEntry>& diagnostics();

/// A block and its attention's mechanism.
struct DiagnosedBlock {
  BlockImpl& block;
  const MechanismEntry& mechanism;
  TokenGrid training_grid;
};

/// All diagnostics without a reference: float64 (H + 1, diagnostics), one row per head, then the
/// layer's; NaN for an undefined number. tokens: (1, N, D), the block's input.
at::Tensor diagnose_block(const DiagnosedBlock& diagnosed, const at::Tensor& tokens,
                          const TokenGrid& grid);

/// The reference's diagnostics, the rest NaN. tokens: the input of the reference's block.
at::Tensor compare_blocks(const DiagnosedBlock& diagnosed, const DiagnosedBlock& reference,
                          const at::Tensor& tokens, const TokenGrid& grid);

/// Means over pictures, for all layers.
class AttentionDiagnostics {
 public:
  /// Whether the layers of two models can be compared one by one.
  static bool comparable(const VitConfig& model, const VitConfig& reference);

  /// Filled modules in evaluation mode on one device; `reference` may be null, else `comparable`.
  /// Both must outlive this.
  AttentionDiagnostics(VisionTransformerImpl& model, VisionTransformerImpl* reference);
  /// image: (3, H, W), normalised, sides multiples of the patch size. Throws Error(out_of_memory).
  void add(const at::Tensor& image);
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  /// Number of queries of the last picture by which rows were judged.
  [[nodiscard]] std::int64_t queries() const noexcept { return queries_; }
  /// float64 (depth, H + 1, diagnostics) on the CPU.
  [[nodiscard]] at::Tensor means() const;

 private:
  VisionTransformerImpl& model_;
  VisionTransformerImpl* reference_;
  at::Tensor sums_;    ///< (depth, H + 1, diagnostics)
  at::Tensor counts_;  ///< how many numbers each sum has
  std::int64_t images_ = 0;
  std::int64_t queries_ = 0;
};

/// Spearman's correlation of the rows of two tensors (..., N) -> (...), float64; ties share the
/// mean of their ranks. NaN for a row of one repeated value.
at::Tensor spearman(const at::Tensor& a, const at::Tensor& b);

}  // namespace hydrascope::model::explain
