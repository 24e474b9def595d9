#pragma once

#include "kernels/device/stream.h"
#include "kernels/hydra/hydra.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

/// Rows of D values: token t of image b begins at data + b * image_stride + t * stride.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;        ///< elements between tokens
  std::int64_t image_stride;  ///< elements between images
};

struct Shape {
  std::int64_t images;
  std::int64_t tokens;   ///< N, of k and v
  std::int64_t queries;  ///< leading tokens that have a query, at most `tokens`
  std::int64_t dim;
  Kernel kernel;
  std::int64_t num_prefix;  ///< leading tokens that weigh `prefix_weight` in c
  float prefix_weight;
  float patch_weight;
};

/// Bytes that `forward` and `backward` work in. They must be zero before the first call with them and
/// are ready for the next after each call (counters return to zero).
std::size_t workspace_bytes(const Shape& shape);

template <class T>
struct ForwardParams {
  Shape shape;
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  const float* feature_scale;  ///< (D) or null
  float* global;  ///< (B, D): g = feature_scale * c; what maps and `backward` read
  Rows<T> y;
  void* workspace;
};
void forward(const ForwardParams<float>& params, device::Stream stream);
void forward(const ForwardParams<BFloat16>& params, device::Stream stream);
void forward(const ForwardParams<Float16>& params, device::Stream stream);

template <class T>
struct BackwardParams {
  Shape shape;  ///< queries = tokens
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  const float* feature_scale;
  const float* global;  ///< of `forward`
  Rows<const T> grad_y;
  Rows<T> grad_q;
  Rows<T> grad_k;
  Rows<T> grad_v;
  float* grad_feature_scale;  ///< (B, D), one row an image, or null
  void* workspace;
};
void backward(const BackwardParams<float>& params, device::Stream stream);
void backward(const BackwardParams<BFloat16>& params, device::Stream stream);
void backward(const BackwardParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::hydra::cuda
