// Random directions for the feature maps that approximate exponentials (Performer, RFA).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// Independent standard normal rows, or rows that are orthogonal within blocks of `columns`.
enum class RowKind { independent, orthogonal };

/// (rows, columns), float32 on the CPU, the same for the same seed on every machine. Orthogonal
/// blocks are Haar distributed (the Q of a QR of a Gaussian with its columns' signs set by the
/// diagonal of R; without that the positive features are biased), and every row is given the norm
/// of a fresh Gaussian row (Choromanski et al. 2021, arXiv 2009.14794, section 2.4).
at::Tensor random_projection(std::int64_t rows, std::int64_t columns, RowKind kind,
                             std::uint64_t seed);

/// A seed of its own for every layer.
std::uint64_t layer_seed(std::int64_t seed, std::int64_t layer_index);

}  // namespace hydrascope::model
