#include "model/attention/linear/random_projection.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrascope::model {

at::Tensor random_projection(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto gaussian = [&](std::int64_t r) {
    return at::randn({r, columns}, generator, at::TensorOptions().dtype(at::kDouble));
  };
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

MechanismEntry random_mechanism(
    MechanismEntry entry, const IntegerOption& directions,
    std::function<FeatureMapPtr(const at::Tensor&, const MechanismOptions&)> map,
    LinearParts parts) {
  static const IntegerOption kSeed =
      of_stored_tensors(IntegerOption("seed", 0, 0, 1'000'000'000, "of the directions"));
  entry.options.push_back(kSeed);
  entry.former_options.emplace("rows", "orthogonal");
  entry.parameters = {{"feature_map.projection", "(M, d), not trained",
                       "standard normal rows, orthogonal in blocks of d"}};
  entry.added_elements = [directions](const MixerSize& size, const MechanismOptions& options) {
    return static_cast<double>(directions(options) * size.head_dim());
  };
  parts.map = [directions, map = std::move(map)](const TokenMixerArguments& arguments) {
    return map(arguments.add_buffer(
                   "feature_map.projection",
                   random_projection(directions(arguments.options), arguments.head_dim,
                                     layer_seed(kSeed(arguments.options), arguments.layer_index))),
               arguments.options);
  };
  parts.map_multiply_adds = [directions](const MixerSize& size, const MechanismOptions& options) {
    return 2 * token_elements(size) * static_cast<double>(directions(options));
  };
  return linear_mechanism(std::move(entry), std::move(parts));
}

}  // namespace hydrascope::model
