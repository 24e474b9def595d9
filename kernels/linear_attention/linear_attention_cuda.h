#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// Rows of H heads: token t of image b begins at data + b * image_stride + t * stride, head h of it
/// at h * (values of a head), heads following each other.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  std::int64_t image_stride;
};

/// All tokens of a batch.
struct Extent {
  std::int64_t images;
  std::int64_t tokens;   ///< N, of k and v
  std::int64_t queries;  ///< leading tokens that have a query, at most `tokens`
  std::int64_t num_prefix;  ///< leading tokens whose key features weigh `prefix_weight`
  float prefix_weight;
  float patch_weight;
};

/// What `forward` leaves of the keys: S (B, H, F, d), z (B, H, F), M (B, H, F), float32.
std::size_t state_floats(const Shape& shape, const Extent& extent);
template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent);
/// Whether the tensor cores run it, else float32 arithmetic.
template <class T>
bool on_tensor_cores(const Shape& shape);

template <class T>
struct ForwardParams {
  Shape shape;
  Extent extent;
  Rows<const T> q;  ///< (B, queries, H * w)
  Rows<const T> k;  ///< (B, N, H * w)
  Rows<const T> v;  ///< (B, N, H * d)
  Rows<T> y;        ///< (B, queries, H * d)
  float* state;     ///< state_floats
  float* denominator;  ///< (B, H, queries): m_i, for `backward`; may be null
  void* workspace;     ///< 256-byte aligned
};
void forward(const ForwardParams<float>& params, device::Stream stream);
void forward(const ForwardParams<BFloat16>& params, device::Stream stream);
void forward(const ForwardParams<Float16>& params, device::Stream stream);

template <class T>
struct BackwardParams {
  Shape shape;
  Extent extent;  ///< queries = tokens
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  Rows<const T> y;
  const float* state;
  const float* denominator;
  Rows<const T> grad_y;
  Rows<T> grad_q;
  Rows<T> grad_k;
  Rows<T> grad_v;
  void* workspace;
};
void backward(const BackwardParams<float>& params, device::Stream stream);
void backward(const BackwardParams<BFloat16>& params, device::Stream stream);
void backward(const BackwardParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
