// Pooling, the last norm and the classifiers, in float32 whatever the network's storage.
#pragma once

#include "model/inference/cpu/packed_network.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// The tokens (num_tokens, D) of one image after the last block -> logits (num_classes), the mean of
/// both classifiers' if there are two. `row` is room for 2 D numbers.
template <class T>
void classify(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* row,
              float* logits);

}  // namespace hydrascope::model::inference
