// Maps that no model is asked for: what a map has to beat before it says anything.
// Test: tests/model/explain/baseline_maps_test.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace hydrascope::model::explain {

/// float32 (rows, columns) in [0, 1), the same for the same words on every machine.
at::Tensor random_map(std::int64_t rows, std::int64_t columns, std::span<const std::uint32_t> seed);

/// Photographers centre what they mean: a Gaussian around the middle, sigma a quarter of each edge.
/// float32 (rows, columns).
at::Tensor center_map(std::int64_t rows, std::int64_t columns);

}  // namespace hydrascope::model::explain
