// Maps without a model: a map says something only if it beats them. Test:
// tests/model/explain/faithfulness_test.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace hydrascope::model::explain {

/// float32 (rows, columns) in [0, 1), the same for the same words on every machine.
at::Tensor random_map(std::int64_t rows, std::int64_t columns, std::span<const std::uint32_t> seed);

/// A Gaussian around the middle, sigma a quarter of each edge: photographers centre their subject.
/// float32 (rows, columns).
at::Tensor center_map(std::int64_t rows, std::int64_t columns);

}  // namespace hydrascope::model::explain
