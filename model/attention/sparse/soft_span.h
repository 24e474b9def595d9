// Softmax attention whose weights fall to zero with the distance of two patches (equations:
// mechanisms/sparse/adaptive_span.cpp).
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// m of rows first .. first + count of the map: `spans` (., H, count or 1, 1) -> (., H, count, N), 1 in
/// rows of prefix tokens.
at::Tensor span_weights(const TokenGrid& grid, const at::Tensor& spans, double ramp,
                        std::int64_t first, std::int64_t count);

/// The image tokens' rows of the output, (B, image tokens, H * width of v): q, k, v (B, H, N, .), q and
/// k as `rule` turns them, `spans` of the image tokens (B or 1, H, image tokens or 1, 1). A head reads
/// the keys within its longest span alone.
at::Tensor mix_within_spans(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const TokenGrid& grid, const at::Tensor& spans, double ramp,
                            const PositionRule* rule);

}  // namespace hydrascope::model
