// Runs a packed network on the CPU, a tile of tokens at a time through whole blocks:
//   mix with the layer's global state -> proj -> + x -> LayerNorm -> fc1 -> GELU -> fc2 -> + x
//   -> LayerNorm -> next layer's q, k, v -> the tile's part of the next global state
// Only x and q (N x D) live between layers, and what the mechanism keeps: Hydra a D-vector, linear
// attention one state per head, softmax and windows their keys and values. The MLP's 4 D activation
// and the 3 D of qkv never leave a core's cache. Threads meet once per layer; where there are
// windows a second time: the prefix, a tile of its own, waits for what all others' keys give to it.
// In the last block, with a class token pooled, only prefix tokens have a query, an output and an
// MLP: exact for every mechanism.
//
// A result depends on the tiles (their number follows the caches and, for small images, the
// threads) through the order of float32 sums over tokens only; it never depends on which thread ran
// a tile.
#pragma once

#include "kernels/device/thread_team.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/inference/cpu/observers.h"
#include "model/inference/cpu/packed_network.h"

#include <cstdint>
#include <memory>
#include <optional>

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

struct ExecutionOptions {
  std::optional<TokenReduction> reduction;
  /// Tiles follow the image's size alone, not the batch and the threads.
  bool fixed_tiles = false;
};

class StreamingExecutor {
 public:
  /// Plans and allocates the workspace for `batch` images of one size per call. `network` and
  /// `team` must outlive it.
  static std::unique_ptr<StreamingExecutor> make(const PackedNetwork& network,
                                                 ImageGeometry geometry, std::int64_t batch,
                                                 kernels::device::ThreadTeam& team,
                                                 const ExecutionOptions& options = {});
  virtual ~StreamingExecutor() = default;

  /// images (count, C, H, W), normalised, at most `batch` -> logits (count, num_classes). No
  /// allocation, no lock.
  virtual void run(const float* images, std::int64_t count, float* logits,
                   const Observers& observers) = 0;
};

}  // namespace hydrascope::model::inference
