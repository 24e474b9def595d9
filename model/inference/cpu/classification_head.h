// Pooling, the last norm and the classifiers, in float32 whatever the network's storage.
#pragma once

#include "model/inference/cpu/packed_network.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// The tokens (num_tokens, D) of one image after the last block -> the rows (1 or 2, D) that the classifiers
/// read. `room`: head_room numbers.
template <class T>
void pool(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* room,
          float* rows);
/// Those rows -> some of the logits (num_classes), the mean of both classifiers' if there are two.
void classify(const PackedNetwork& network, const float* rows,
              const kernels::linear::Outputs& classes, float* logits);
std::size_t head_room(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
