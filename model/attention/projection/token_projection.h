// How Linformer shortens a sequence (mechanisms/linformer.cpp): keys and values of N tokens become m
// keys and m values, E k and F v.
#pragma once

#include "model/attention/projection/patch_pooling.h"
#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace hydrascope::model {

/// x (B, H, N, d) of the compute type -> (B, H, m, d). Only dense projections mix prefix tokens in.
class TokenProjection {
 public:
  TokenProjection() = default;
  TokenProjection(const TokenProjection&) = delete;
  TokenProjection& operator=(const TokenProjection&) = delete;
  virtual ~TokenProjection() = default;

  [[nodiscard]] virtual at::Tensor keys(const at::Tensor& k, const TokenGrid& grid) const = 0;
  [[nodiscard]] virtual at::Tensor values(const at::Tensor& v, const TokenGrid& grid) const = 0;
  /// Weights of the m values on the N tokens, w F: (B, H, n, m) -> (B, H, n, N).
  [[nodiscard]] virtual at::Tensor lengthened(const at::Tensor& weights,
                                              const TokenGrid& grid) const = 0;
};

/// The learned E and F, on the device and in the type of the module; both may be one tensor.
struct ProjectionWeights {
  at::Tensor keys, values;
};

/// (m, N) of all tokens. Another number of tokens is refused.
std::unique_ptr<TokenProjection> dense_projection(ProjectionWeights weights,
                                                  const TokenGrid& training);
/// (m, R C) of the patches: at another grid each row is resized as an image, bicubic, and rescaled so
/// that its sum is kept.
std::unique_ptr<TokenProjection> resized_projection(ProjectionWeights weights,
                                                    const TokenGrid& training);
/// About `length` cells of the patch grid: averages of values, averages or maxima of keys.
std::unique_ptr<TokenProjection> cell_projection(std::int64_t length, PoolBy of_keys);
/// Averages of such cells, each patch weighted by a kernel (H, s, s) that is laid over its cell.
std::unique_ptr<TokenProjection> kernel_projection(ProjectionWeights kernels, std::int64_t length);

}  // namespace hydrascope::model
