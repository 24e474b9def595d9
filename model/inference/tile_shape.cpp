#include "model/inference/tile_shape.h"

#include <algorithm>

namespace hydrascope::model::inference {
namespace {

constexpr std::int64_t kStrip = 6;
// Below it a tile does not pay for reading all weights; above it nothing is gained.
constexpr std::int64_t kFewestRows = 48;
constexpr std::int64_t kMostRows = 384;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

TileShape choose_tiles(std::int64_t num_tokens, std::int64_t batch, std::int64_t row_bytes,
                       std::int64_t l2_bytes, int threads) {
  const std::int64_t fitting =
      std::clamp(l2_bytes * 3 / 4 / std::max<std::int64_t>(1, row_bytes), kFewestRows, kMostRows);
  std::int64_t count = divide_up(num_tokens, fitting);
  const std::int64_t wanted = divide_up(threads, std::max<std::int64_t>(1, batch));
  count = std::max(count, wanted);
  // An even share of the threads leaves none waiting for the last tile of a small image.
  if (batch == 1 && count < 8 * threads) count = divide_up(count, threads) * threads;
  TileShape shape;
  shape.rows = std::max(kStrip, divide_up(divide_up(num_tokens, count), kStrip) * kStrip);
  shape.count = divide_up(num_tokens, shape.rows);
  return shape;
}

}  // namespace hydrascope::model::inference
