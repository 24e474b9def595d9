// Pooling, the last norm and the classifiers, in float32 whatever the network's storage.
#pragma once

#include "model/inference/cpu/packed_network.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// The tokens (num_tokens, D) of one image after the last block -> logits (num_classes), the mean of
/// both classifiers' if there are two. `room`: head_room numbers.
template <class T>
void classify(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* room,
              float* logits);
std::size_t head_room(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
