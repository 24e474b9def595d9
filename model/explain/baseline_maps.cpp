#include "model/explain/baseline_maps.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/outer.h>

#include <cmath>
#include <random>

namespace hydrascope::model::explain {
namespace {

/// A Gaussian over `count` cells, centred on their middle.
at::Tensor gaussian(std::int64_t count) {
  constexpr double kSigma = 0.25;
  const auto edge = static_cast<double>(count);
  const at::Tensor x = (at::arange(count, at::kDouble) - (edge - 1) / 2) / (kSigma * edge);
  return at::exp(x * x * -0.5);
}

}  // namespace

at::Tensor random_map(std::int64_t rows, std::int64_t columns,
                      std::span<const std::uint32_t> seed) {
  std::seed_seq words(seed.begin(), seed.end());
  std::mt19937_64 engine(words);
  at::Tensor map = at::empty({rows, columns}, at::kFloat);
  const std::span cells(map.mutable_data_ptr<float>(), static_cast<std::size_t>(map.numel()));
  // Written out: the distributions of <random> differ between libraries.
  constexpr int kMantissaBits = 24;
  for (float& heat : cells)
    heat = std::ldexp(static_cast<float>(engine() >> (64 - kMantissaBits)), -kMantissaBits);
  return map;
}

at::Tensor center_map(std::int64_t rows, std::int64_t columns) {
  return at::outer(gaussian(rows), gaussian(columns)).to(at::kFloat);
}

}  // namespace hydrascope::model::explain
