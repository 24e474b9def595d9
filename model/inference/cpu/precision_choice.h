// Which number format the CPU plan computes fastest in, found by trying: what a processor's list of
// instructions says of that is wrong too often. A processor with bfloat16 products may do them at
// half the rate of its float32 ones, and what lies between products pays for every conversion.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>
#include <optional>

namespace hydrascope::model::inference {

/// Seconds that one thread takes to send a tile of tokens through a block's MLP and Hydra's sums:
/// products, LayerNorm, GELU and what is bound by memory, with the plan's own kernels.
struct StorageTimings {
  double float32 = 0;
  double bfloat16 = 0;
};

/// Of a model `embed_dim` wide (narrower where that would take long): some milliseconds, the best
/// of several rounds that take turns. Nothing where this processor has no instructions for
/// bfloat16, whose kernels then compute in float32 and convert besides.
std::optional<StorageTimings> measure_storages(std::int64_t embed_dim);

/// bfloat16 where it wins by a tenth or more: it rounds, and a measurement of milliseconds is not
/// exact. float32 without timings.
kernels::Storage faster_storage(const std::optional<StorageTimings>& timings);

}  // namespace hydrascope::model::inference
