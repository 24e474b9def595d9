// What launches hydra.cuh and hydra_gradient.cuh: checks, the choice between the kernels, their
// arguments, and the functions of hydra_cuda.h.
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/hydra/hydra.cuh"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/hydra/hydra_gradient.cuh"

#include <limits>
#include <string>
#include <type_traits>

namespace hydrascope::kernels::hydra::cuda {

void check(const Shape& shape) {
  const auto refuse = [](const char* what, std::int64_t found) {
    throw Error(ErrorCode::invalid_argument,
                std::string("hydra needs ") + what + ", not " + std::to_string(found));
  };
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 4;
  if (shape.images < 0) refuse("a number of images", shape.images);
  if (shape.dim < 0 || shape.dim > kMost) refuse("0 to 2^29 features", shape.dim);
  if (shape.tokens < 0 || shape.tokens > kMost) refuse("0 to 2^29 tokens", shape.tokens);
  if (shape.queries < 0 || shape.queries > shape.tokens)
    refuse("queries of its tokens only", shape.queries);
}

/// Calls `function` with an integral_constant: packs_of(dim), or 0 unless all `can`.
template <class T, class Function>
void with_packs(std::int64_t dim, bool can, const Function& function) {
  switch (can ? packs_of(dim, device::kPackSize<T>) : 0) {
    case 1: return function(std::integral_constant<int, 1>());
    case 3: return function(std::integral_constant<int, 3>());
    case 4: return function(std::integral_constant<int, 4>());
    case 6: return function(std::integral_constant<int, 6>());
    default: return function(std::integral_constant<int, 0>());
  }
}

void check_workspace(const void* workspace) {
  if (workspace == nullptr) throw Error(ErrorCode::internal, "has no workspace", "hydra");
}

/// What both passes share; c of no weight yet.
template <class T>
ProjectArguments<T> project_arguments(const Shape& shape, void* workspace) {
  const WorkspaceLayout layout = workspace_layout(shape.images, shape.tokens, shape.dim);
  auto* bytes = static_cast<unsigned char*>(workspace);
  ProjectArguments<T> arguments{};
  arguments.tokens = shape.tokens;
  arguments.prefix_weight = arguments.patch_weight = 1;
  arguments.dim = static_cast<int>(shape.dim);
  arguments.share = static_cast<int>(project_share(shape.tokens));
  arguments.splits = static_cast<int>(project_splits(shape.tokens));
  arguments.groups = static_cast<int>(project_groups(shape.tokens));
  arguments.counters = reinterpret_cast<unsigned*>(bytes);
  arguments.partial = reinterpret_cast<float*>(bytes + layout.partial);
  return arguments;
}

template <bool gradient, class T>
void launch_project(const ProjectArguments<T>& arguments, const Shape& shape,
                    device::Stream stream) {
  const device::Geometry geometry = project_geometry(shape.images, shape.tokens);
  const bool can =
      in_packs(arguments.x) && in_packs(arguments.other) &&
      (!gradient || (in_packs(arguments.grad_x) && device::can_pack(arguments.gate, shape.dim, 4)));
  with_packs<T>(shape.dim, can, [&](auto packs) {
    if constexpr (packs > 0 && gradient) {
      device::launch("query_gradient_kernel", query_gradient_kernel<T, packs>, geometry, stream,
                     arguments);
    } else if constexpr (packs > 0) {
      device::launch("project_kernel", project_kernel<T, packs>, geometry, stream, arguments);
    } else {
      device::launch("project_any_kernel", project_any_kernel<T, gradient>, geometry, stream,
                     arguments);
    }
  });
}

template <class T>
void launch_forward(const ForwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  check(shape);
  if (shape.images == 0 || shape.dim == 0) return;
  check_workspace(params.workspace);

  auto project = project_arguments<T>(shape, params.workspace);
  project.x = params.k;
  project.other = params.v;
  project.num_prefix = shape.num_prefix;
  project.prefix_weight = shape.prefix_weight;
  project.patch_weight = shape.patch_weight;
  project.rule = {shape.kernel.norm_k, shape.kernel.eps_rule, shape.kernel.eps};
  project.feature_scale = params.feature_scale;
  project.global = params.global;
  project.sum = params.sum;
  launch_project<false>(project, shape, stream);

  if (shape.queries == 0) return;
  const device::Geometry geometry = rows_geometry(shape.images, shape.queries);
  const GateArguments<T> gate{params.q,
                              params.y,
                              params.global,
                              shape.queries,
                              {shape.kernel.norm_q, shape.kernel.eps_rule, shape.kernel.eps},
                              static_cast<int>(shape.dim),
                              static_cast<int>(geometry.grid.x / shape.images)};
  const bool can =
      in_packs(params.q) && in_packs(params.y) && device::can_pack(params.global, shape.dim, 4);
  with_packs<T>(shape.dim, can, [&](auto packs) {
    if constexpr (packs > 0) {
      device::launch("gate_kernel", gate_kernel<T, packs>, geometry, stream, gate);
    } else {
      device::launch("gate_any_kernel", gate_any_kernel<T>, geometry, stream, gate);
    }
  });
}

template <class T>
void launch_backward(const BackwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  check(shape);
  if (shape.queries != shape.tokens)
    throw Error(ErrorCode::invalid_argument, "hydra's backward pass needs a query of every token");
  if (shape.images == 0 || shape.dim == 0) return;
  check_workspace(params.workspace);
  const bool scale_too = params.grad_feature_scale != nullptr;
  if (scale_too && params.feature_scale != nullptr && params.sum == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "hydra's gradient of the feature scale needs the sum that forward leaves");
  auto* dc = reinterpret_cast<float*>(static_cast<unsigned char*>(params.workspace) +
                                      workspace_layout(shape.images, shape.tokens, shape.dim).dc);

  auto project = project_arguments<T>(shape, params.workspace);
  project.x = params.q;
  project.other = params.grad_y;
  project.rule = {shape.kernel.norm_q, shape.kernel.eps_rule, shape.kernel.eps};
  project.feature_scale = params.feature_scale;
  project.global = dc;
  project.gate = params.global;
  project.grad_x = params.grad_q;
  project.factor = params.feature_scale == nullptr ? params.global : params.sum;
  project.product = params.grad_feature_scale;
  launch_project<true>(project, shape, stream);

  if (shape.tokens == 0) return;
  const device::Geometry geometry = rows_geometry(shape.images, shape.tokens);
  const KeyGradientArguments<T> keys{params.k,
                                     params.v,
                                     params.grad_k,
                                     params.grad_v,
                                     dc,
                                     shape.tokens,
                                     shape.num_prefix,
                                     shape.prefix_weight,
                                     shape.patch_weight,
                                     {shape.kernel.norm_k, shape.kernel.eps_rule, shape.kernel.eps},
                                     static_cast<int>(shape.dim),
                                     static_cast<int>(geometry.grid.x / shape.images)};
  const bool can = in_packs(params.k) && in_packs(params.v) && in_packs(params.grad_k) &&
                   in_packs(params.grad_v) && device::can_pack(dc, shape.dim, 4);
  with_packs<T>(shape.dim, can, [&](auto packs) {
    if constexpr (packs > 0) {
      device::launch("key_gradient_kernel", key_gradient_kernel<T, packs>, geometry, stream, keys);
    } else {
      device::launch("key_gradient_any_kernel", key_gradient_any_kernel<T>, geometry, stream, keys);
    }
  });
}

std::size_t workspace_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).bytes;
}

std::size_t workspace_zero_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).partial;
}

void forward(const ForwardParams<float>& params, device::Stream stream) {
  launch_forward(params, stream);
}
void forward(const ForwardParams<BFloat16>& params, device::Stream stream) {
  launch_forward(params, stream);
}
void forward(const ForwardParams<Float16>& params, device::Stream stream) {
  launch_forward(params, stream);
}

void backward(const BackwardParams<float>& params, device::Stream stream) {
  launch_backward(params, stream);
}
void backward(const BackwardParams<BFloat16>& params, device::Stream stream) {
  launch_backward(params, stream);
}
void backward(const BackwardParams<Float16>& params, device::Stream stream) {
  launch_backward(params, stream);
}

}  // namespace hydrascope::kernels::hydra::cuda
