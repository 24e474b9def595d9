// Runs a packed network on the CPU, a tile of tokens at a time through whole blocks:
//   mix -> proj -> + x -> LayerNorm -> fc1 -> GELU -> fc2 -> + x -> LayerNorm -> next layer's q, k, v
//   -> its mixing absorbs them (mixing.h)
// Only x and q (N x D) live between layers, and the mixing's memory: Hydra keeps a D-vector, linear
// attention one state per head, softmax and windows their keys and values. The MLP's 4 D activation
// and the 3 D of qkv never leave a core's cache. Threads meet once per layer, and a second time in
// a layer of windows: the prefix is a tile of its own and waits for its sums over all other tiles'
// keys. In the last block, with a class token pooled, only prefix tokens have a query, an output
// and an MLP: exact for every mechanism.
//
// A result depends on the tiles (their number follows the caches and, for small images, the
// threads) through the order of float32 sums over tokens only; it never depends on which thread ran
// a tile.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/observers.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/workspace.h"

#include <cstdint>
#include <memory>

namespace hydrascope::model::inference {

class StreamingExecutor {
 public:
  /// Plans and allocates the workspace for `batch` images of one size per call. `network` and
  /// `team` must outlive it.
  static std::unique_ptr<StreamingExecutor> make(const PackedNetwork& network,
                                                 ImageGeometry geometry, std::int64_t batch,
                                                 kernels::device::ThreadTeam& team,
                                                 const ExecutionOptions& options = {});
  virtual ~StreamingExecutor() = default;

  /// Whether `run` takes so many images of rows x columns patches.
  [[nodiscard]] virtual bool serves(std::int64_t images, std::int64_t rows,
                                    std::int64_t columns) const noexcept = 0;

  /// images (count, C, H, W), normalised, at most `batch` -> logits (count, num_classes). No
  /// allocation, no lock.
  virtual void run(const float* images, std::int64_t count, float* logits,
                   const Observers& observers) = 0;
};

}  // namespace hydrascope::model::inference
