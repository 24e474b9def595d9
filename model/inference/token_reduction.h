// Dropping the patch tokens that give least to the class token, as its own attention map ranks
// them.
#pragma once

#include "model/inference/packed_network.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// Behind the attention of block `layer` go on the prefix tokens and the `patches` patch tokens
/// that give most to the class token there (as Liang et al. 2022, arXiv 2202.07800, section 3.1,
/// without their fused token). Needs a class token, kernels for that block's mechanism and those
/// after it, and a block after it. Token weights (hydra.scale) stay those of the whole image:
/// what is dropped gave least to the sums.
struct TokenReduction {
  std::int64_t layer = 0;
  std::int64_t patches = 0;
};

/// The tokens of a tile, and where their share of the map goes.
template <class T>
struct ScoreParams {
  const MixingLayer* mixing;
  const T* query;             ///< the class token's, as the attention kernels read it
  const float* class_weight;  ///< Hydra: the same in float32, times the feature scale
  const T* keys;              ///< (rows, key width), rows `stride` apart
  const T* values;            ///< (rows, D)
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t num_prefix;  ///< leading rows of this tile
  ImageGeometry::TokenWeights weights;
  std::int64_t num_heads;
  std::int64_t head_dim;
  float* scores;  ///< (H, rows), heads `score_stride` apart: other mechanisms than Hydra
  std::int64_t score_stride;
  float* heat;  ///< (rows): Hydra
};
template <class T>
void score_tokens(const ScoreParams<T>& params);

/// Scores (H, N) of all tokens -> heat (N): the mean over heads of the class token's attention.
/// Hydra's heat is already there.
void heat_from_scores(const MixingLayer& mixing, float* scores, std::int64_t num_heads,
                      std::int64_t num_tokens, float* heat);

/// Ascending indices of the `patches` tokens of greatest |heat| among num_prefix .. num_tokens; the
/// first of equals, NaN last. order: room for num_tokens - num_prefix. Changes `heat`.
void best_tokens(float* heat, std::int64_t num_prefix, std::int64_t num_tokens,
                 std::int64_t patches, std::int32_t* order);

}  // namespace hydrascope::model::inference
