// Mechanisms with random features: maps that approximate exponentials (Performer, RFA).
#pragma once

#include "model/attention/linear/linear_mechanism.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hydrascope::model {

/// (rows, columns) of standard normal rows, orthogonal within blocks of `columns`; float32 on the
/// CPU, the same for the same seed on every machine. Blocks are Haar distributed: the Q of a QR of
/// a Gaussian, its columns' signs set by the diagonal of R; other signs would bias the positive
/// features. Every row is given the norm of a fresh Gaussian row (Choromanski et al. 2021, arXiv
/// 2009.14794, section 2.4).
at::Tensor random_projection(std::int64_t rows, std::int64_t columns, std::uint64_t seed);

/// A seed of its own for every layer.
std::uint64_t layer_seed(std::int64_t seed, std::int64_t layer_index);

/// The mechanism with the option `seed` and the buffer feature_map.projection, M rows of d: M is the
/// value of `directions`, an option of the entry.
MechanismEntry random_mechanism(
    MechanismEntry entry, const IntegerOption& directions,
    std::function<FeatureMapPtr(const at::Tensor& projection, const MechanismOptions&)> map,
    LinearParts parts);

}  // namespace hydrascope::model
