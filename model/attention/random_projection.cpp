#include "model/attention/random_projection.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

namespace hydrascope::model {

at::Tensor random_projection(std::int64_t rows, std::int64_t columns, RowKind kind,
                             std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto gaussian = [&](std::int64_t r) {
    return at::randn({r, columns}, generator, at::TensorOptions().dtype(at::kDouble));
  };
  if (kind == RowKind::independent) return gaussian(rows).to(at::kFloat);
  std::vector<at::Tensor> blocks;
  for (std::int64_t made = 0; made < rows; made += columns) {
    const auto [q, r] = at::linalg_qr(gaussian(columns));
    const at::Tensor haar = q * at::where(r.diagonal() < 0, -1.0, 1.0);
    const at::Tensor norms = gaussian(columns).norm(2, {1}, /*keepdim=*/true);
    blocks.push_back((haar.t() * norms).narrow(0, 0, std::min(columns, rows - made)));
  }
  return at::cat(blocks).to(at::kFloat);
}

std::uint64_t layer_seed(std::int64_t seed, std::int64_t layer_index) {
  // Far apart, so that layer 1 of seed 0 is not layer 0 of seed 1.
  constexpr std::uint64_t kLayers = 1024;
  return static_cast<std::uint64_t>(seed) * kLayers + static_cast<std::uint64_t>(layer_index);
}

}  // namespace hydrascope::model
