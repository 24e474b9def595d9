// The operators' tensors are (B, H, N, d), as in torch's scaled_dot_product_attention; the kernels
// read tokens as rows of H d values. Both are the same memory when it is ordered (B, N, H, d), the
// order of a projection's output: such tensors are taken as they are, others are copied.
#pragma once

#include "model/attention/compute_type.h"
#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace hydrascope::model {

/// (B, H, N, d) -> (B, N, H d).
at::Tensor merge_heads(const at::Tensor& x);
/// (B, N, H d) -> (B, H, N, d).
at::Tensor split_heads(const at::Tensor& x, std::int64_t num_heads);

/// w_t x_t of tokens along the last dimension but one; x itself if every token weighs 1.
at::Tensor weighted(const at::Tensor& x, const TokenWeights& weights);

/// Calls `body(first, count)` for consecutive chunks of `num_tokens`, of `chunk` tokens each but the
/// last.
template <class Body>
void for_token_chunks(std::int64_t num_tokens, std::int64_t chunk, const Body& body) {
  for (std::int64_t first = 0; first < num_tokens; first += chunk)
    body(first, std::min(chunk, num_tokens - first));
}

}  // namespace hydrascope::model

namespace hydrascope::model::ops {

/// x (B, H, N, d), or a copy of it, whose tokens are rows: strides (any, d, any, 1).
at::Tensor with_token_rows(const at::Tensor& x);

/// The same for GPUs' kernels: rows of whole packs of 16 bytes then begin at multiples of 16 bytes,
/// if need be in a copy.
at::Tensor with_packed_rows(const at::Tensor& x);

/// Uninitialised (B, H, N, head_dim), with B, H and N, dtype and device of x; tokens are rows that
/// follow each other. Sizes may be symbols.
at::Tensor empty_token_rows(const at::Tensor& x, const c10::SymInt& head_dim);
at::Tensor empty_token_rows(const at::Tensor& x);

/// Elements from token to token of a tensor that has token rows.
std::int64_t token_stride(const at::Tensor& x);

/// Sets a kernel's description of x: {data, elements between tokens, elements between images}.
template <class Rows>
void set_rows(Rows& rows, const at::Tensor& x) {
  using Pointer = decltype(Rows::data);
  rows.stride = token_stride(x);
  rows.image_stride = x.stride(0);
  if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>) {
    rows.data = static_cast<Pointer>(x.const_data_ptr());
  } else {
    rows.data = static_cast<Pointer>(x.mutable_data_ptr());
  }
}

/// q (B, H, N, w), k (B, H, N, w), v (B, H, N, d) of one floating dtype and one device, w = d if
/// `one_width`, and 0 <= num_prefix <= N; else an error that names `op`. Sizes may be symbols.
void check_tokens(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  bool one_width, std::int64_t num_prefix = 0);

}  // namespace hydrascope::model::ops
