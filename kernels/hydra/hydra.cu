// The functions of hydra_cuda.h: checks, the choice between the kernels of hydra.cuh and
// hydra_backward.cuh, their arguments and launches.
#include "kernels/device/choice.h"
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/hydra/hydra.cuh"
#include "kernels/hydra/hydra_backward.cuh"
#include "kernels/hydra/hydra_cuda.h"

#include <string>

namespace hydrascope::kernels::hydra::cuda {

template <class T, class... Tensors>
void check(const Shape& shape, const void* workspace, const Tensors&... rows) {
  const auto refuse = [](const char* what, std::int64_t found) {
    throw Error(ErrorCode::invalid_argument,
                std::string("hydra needs ") + what + ", not " + std::to_string(found));
  };
  constexpr std::int64_t kMax = std::int64_t{1} << 29;
  if (shape.images < 0) refuse("a number of images", shape.images);
  if (shape.dim != 0 && !serves<T>(shape.dim)) refuse("rows of whole packs of 16 bytes", shape.dim);
  if (shape.tokens < 0 || shape.tokens >= kMax) refuse("0 to 2^29 tokens", shape.tokens);
  if (shape.queries < 0 || shape.queries > shape.tokens)
    refuse("queries of its tokens only", shape.queries);
  if (shape.images > 0 && !(device::in_packs(rows) && ...))
    throw Error(ErrorCode::invalid_argument, "rows begin where 16 bytes do not", "hydra");
  if (workspace == nullptr && shape.images > 0 && shape.dim > 0)
    throw Error(ErrorCode::internal, "has no workspace", "hydra");
}

/// Calls run.operator()<packs>() with packs_of(dim), which is not 0.
template <class T, class Run>
void with_packs(std::int64_t dim, const Run& run) {
  device::with_one_of<kPacks<T>>(packs_of<T>(dim), run);
}

template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  check<T>(shape, params.workspace, params.q, params.k, params.v, params.y,
           Rows<float>{params.global, shape.dim, 0});
  if (shape.images == 0 || shape.dim == 0) return;

  const ProjectArguments<T> project{params.k,
                                    params.v,
                                    device::TokenWeights(shape.weights),
                                    shape.kernel.key,
                                    SplitSum(shape, params.workspace),
                                    params.feature_scale,
                                    params.global,
                                    params.sum};
  const device::Geometry splits = project_geometry(shape.images, shape.tokens);
  with_packs<T>(shape.dim, [&]<int packs>() {
    device::launch("project_kernel", project_kernel<T, packs>, splits, stream, project);
  });

  if (shape.queries == 0) return;
  const device::Geometry rows = rows_geometry(shape.images, shape.queries);
  const GateArguments<T> gate{params.q,
                              params.y,
                              params.global,
                              shape.queries,
                              shape.kernel.query,
                              static_cast<int>(shape.dim),
                              static_cast<int>(rows.grid.x / shape.images)};
  with_packs<T>(shape.dim, [&]<int packs>() {
    device::launch("gate_kernel", gate_kernel<T, packs>, rows, stream, gate);
  });
}

template <class T>
void backward(const BackwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  check<T>(shape, params.workspace, params.q, params.k, params.v, params.grad_y, params.grad_q,
           params.grad_k, params.grad_v, Rows<const float>{params.global, shape.dim, 0});
  if (shape.queries != shape.tokens)
    throw Error(ErrorCode::invalid_argument, "hydra's backward pass needs a query of every token");
  if (shape.images == 0 || shape.dim == 0) return;
  if (params.grad_feature_scale != nullptr && params.feature_scale != nullptr &&
      params.sum == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "hydra's gradient of the feature scale needs the sum that forward leaves");
  auto* dc = reinterpret_cast<float*>(static_cast<unsigned char*>(params.workspace) +
                                      workspace_layout(shape.images, shape.tokens, shape.dim).dc);

  const QueryGradientArguments<T> queries{
      params.q,
      params.grad_y,
      params.grad_q,
      params.global,
      shape.kernel.query,
      SplitSum(shape, params.workspace),
      params.feature_scale,
      dc,
      params.feature_scale == nullptr ? params.global : params.sum,
      params.grad_feature_scale};
  const device::Geometry splits = project_geometry(shape.images, shape.tokens);
  with_packs<T>(shape.dim, [&]<int packs>() {
    device::launch("query_gradient_kernel", query_gradient_kernel<T, packs>, splits, stream,
                   queries);
  });

  if (shape.tokens == 0) return;
  const device::Geometry rows = rows_geometry(shape.images, shape.tokens);
  const KeyGradientArguments<T> keys{params.k,
                                     params.v,
                                     params.grad_k,
                                     params.grad_v,
                                     dc,
                                     shape.tokens,
                                     device::TokenWeights(shape.weights),
                                     shape.kernel.key,
                                     static_cast<int>(shape.dim),
                                     static_cast<int>(rows.grid.x / shape.images)};
  with_packs<T>(shape.dim, [&]<int packs>() {
    device::launch("key_gradient_kernel", key_gradient_kernel<T, packs>, rows, stream, keys);
  });
}

std::size_t workspace_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).bytes;
}
std::size_t workspace_zero_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).partial;
}

template void forward(const ForwardParams<float>&, device::Stream);
template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);
template void backward(const BackwardParams<float>&, device::Stream);
template void backward(const BackwardParams<BFloat16>&, device::Stream);

}  // namespace hydrascope::kernels::hydra::cuda
