#include "model/inference/tile_shape.h"

#include <algorithm>

namespace hydrascope::model::inference {
namespace {

constexpr std::int64_t kStrip = 6;
// All of a layer's weights pass by for every tile: fewer rows than these do not pay for that even
// where the tile's activations overflow the L2 cache (measured for D = 768: 48 rows cost 4 %, 36
// rows in float32 10 %; from 96 to 384 rows the time is the same within 2 %). Above nothing is
// gained.
constexpr std::int64_t kFewestRows = 132;
constexpr std::int64_t kMostRows = 384;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

TileShape choose_tiles(std::int64_t num_tokens, std::int64_t batch, std::int64_t row_bytes,
                       std::int64_t l2_bytes, int threads) {
  const std::int64_t fitting =
      std::clamp(l2_bytes / 3 / std::max<std::int64_t>(1, row_bytes), kFewestRows, kMostRows);
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
