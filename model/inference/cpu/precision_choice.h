// The number format in which the CPU plan is fastest, found by trying: a processor's list of
// instructions does not tell it. A processor with bfloat16 products may do them at half the rate of
// its float32 ones, and the work between products pays for every conversion.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>
#include <optional>

namespace hydrascope::model::inference {

/// Seconds that one thread takes to send a tile of tokens through a block's MLP and Hydra's sums:
/// products, LayerNorm, GELU and work that memory bounds, with the plan's own kernels.
struct StorageTimings {
  double float32 = 0;
  double bfloat16 = 0;
};

/// Times a model `embed_dim` wide (narrower if that would take long) for some milliseconds: the
/// best of several rounds that take turns. Nothing if this processor has no instructions for
/// bfloat16: the kernels of bfloat16 then compute in float32 and convert besides.
std::optional<StorageTimings> measure_storages(std::int64_t embed_dim);

/// The format of the tokens' rows between products whose weights are bfloat16 or 8 bits: bfloat16 if the
/// processor multiplies it. Elsewhere the kernels would convert rows for every product, which costs more
/// than the narrower rows save: weights alone are narrow then.
kernels::Storage row_storage();
/// Replaces row_storage()'s answer; nothing: it answers for the processor again.
void set_row_storage_for_test(std::optional<kernels::Storage> storage);

/// bfloat16 if it wins by a tenth or more: it rounds, and a measurement of milliseconds is not
/// exact. float32 without timings.
inline kernels::Storage faster_storage(const std::optional<StorageTimings>& timings) {
  constexpr double kClearlyLess = 0.9;
  const bool wins = timings && timings->bfloat16 < kClearlyLess * timings->float32;
  return wins ? kernels::Storage::bfloat16 : kernels::Storage::float32;
}

}  // namespace hydrascope::model::inference
