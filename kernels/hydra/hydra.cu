// The functions of hydra_cuda.h: checks, the choice between the kernels of hydra.cuh, their
// arguments and launches.
#include "kernels/device/choice.h"
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/hydra/hydra.cuh"
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

std::size_t workspace_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).bytes;
}
std::size_t workspace_zero_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).partial;
}

template void forward(const ForwardParams<float>&, device::Stream);
template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::hydra::cuda
