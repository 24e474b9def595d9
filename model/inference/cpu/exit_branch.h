// The exits of a network (model/class_branch.h) on the CPU, in float32 whatever the network's storage.
// Keys and values of all tokens are never made. With y = LayerNorm(x), without weight and bias:
//   s_j = q_h . k_j = (W_k,h^T q_h) . y_j + a constant of all j, which softmax does not see
//   sum_j p_j v_j = W_v,h (sum_j p_j y_j) + b_v,h
// so a class block reads each token twice and multiplies matrices with some rows of an image alone.
#pragma once

#include "model/inference/cpu/packed_network.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// An exit's findings about neighbouring images.
struct ExitRows {
  float* logits;    ///< (images, num_classes)
  float* features;  ///< (images, D)
  float* stop;      ///< (images)
};

/// Images that one call takes at most: weights are read once for all of them.
inline constexpr std::int64_t kExitImages = 8;

/// The exit behind `layer`. tokens: (images, num_tokens, D), the class token of each first, as they enter
/// the next block. `room`: exit_room floats.
template <class T>
void run_exit(const PackedNetwork& network, std::int64_t layer, const T* tokens,
              std::int64_t images, std::int64_t num_tokens, float* room, const ExitRows& found);
std::size_t exit_room(const PackedNetwork& network, std::int64_t num_tokens);

}  // namespace hydrascope::model::inference
