// The tokens that a classifier pools, and how a logit depends on the output of the last block's
// mixer at these tokens.
#pragma once

#include "model/attention/token_grid.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace hydrascope::model::explain {

/// The pooled tokens first .. first + count, all with the same weight.
struct Readout {
  std::int64_t first = 0;
  std::int64_t count = 1;

  Readout(const VitConfig& config, const TokenGrid& grid);
  /// (N), 1 / count at the pooled tokens and 0 elsewhere.
  [[nodiscard]] at::Tensor weights(std::int64_t num_tokens, const at::TensorOptions& options) const;
  /// Whether the pooled tokens are the sequence's first, and few.
  [[nodiscard]] bool of_prefix() const noexcept { return of_prefix_; }
  /// Number of tokens, from the first on, that the logits need after the last block.
  [[nodiscard]] std::int64_t end() const noexcept { return first + count; }

 private:
  bool of_prefix_;
};

/// d logit / d mixed for each class, (classes, n, D), in one pass: for few rows.
at::Tensor gradient_behind(VisionTransformerImpl& model, const at::Tensor& tokens,
                           const at::Tensor& mixed, std::span<const std::int64_t> classes);

/// d logit / d (the last block's output) for each class: rows (1, n, D) -> (classes, n, D).
at::Tensor gradient_of_output(VisionTransformerImpl& model, const at::Tensor& rows,
                              std::span<const std::int64_t> classes);

/// The output (1, n, D) of `block` at some tokens, chunk by chunk.
at::Tensor complete_in_chunks(BlockImpl& block, const at::Tensor& tokens, const at::Tensor& mixed);

}  // namespace hydrascope::model::explain
