#include "model/inference/cpu/tile_shape.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace hydrascope::model::inference {
namespace {

// Every tile loads all of a layer's weights. Fewer rows do not pay for that even if the activations
// of so many overflow the L2 cache (measured for D = 768: 48 rows cost 4 %, 36 rows in float32
// 10 %; from 96 to 384 rows the time is the same within 2 %).
constexpr std::int64_t kFewestRows = 132;
constexpr std::int64_t kMostRows = 384;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

TileShape shape_of(std::int64_t num_tokens, std::int64_t least_rows, std::int64_t unit) {
  TileShape shape;
  shape.rows = std::max(unit, divide_up(least_rows, unit) * unit);
  shape.count = divide_up(num_tokens, shape.rows);
  return shape;
}

enum class HandedOut { first_to_last, last_to_first };

/// Rows after which the last thread ends when `granule` rows are computed even of fewer, and no tile
/// takes less time than `least` rows.
std::int64_t busiest_rows(const Borders& tiles, HandedOut order, std::int64_t batch, int threads,
                          std::int64_t granule, std::int64_t least) {
  const std::int64_t count = std::ssize(tiles) - 1;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> ends;
  for (int thread = 0; thread < threads; ++thread) ends.push(0);
  std::int64_t end = 0;
  for (std::int64_t item = 0; item < batch * count; ++item) {
    const std::int64_t place = item % count;
    const auto tile =
        tiles.begin() + (order == HandedOut::first_to_last ? place : count - 1 - place);
    const std::int64_t rows = tile[1] - tile[0];
    const std::int64_t done = ends.top() + std::max(least, divide_up(rows, granule) * granule);
    ends.pop();
    ends.push(done);
    end = std::max(end, done);
  }
  return end;
}

/// Small windows share a tile of about `rows`; windows above `most_whole` are cut into like parts.
Borders borders_by_windows(const Borders& windows, std::int64_t rows, std::int64_t most_whole) {
  Borders borders{0};
  for (std::size_t i = 1; i < windows.size(); ++i) {
    const std::int64_t first = windows[i - 1];
    const std::int64_t end = windows[i];
    // This window joins the tile before it if the tile so comes nearer to `rows`.
    if (first > borders.back() && end - borders.back() - rows > rows - (first - borders.back()))
      borders.push_back(first);
    const std::int64_t left = end - borders.back();
    const std::int64_t parts = left <= most_whole ? 1 : (left + rows / 2) / rows;
    if (parts > 1) {
      const std::int64_t share = divide_up(divide_up(left, parts), kStripRows) * kStripRows;
      for (std::int64_t cut = borders.back() + share; cut < end; cut += share)
        borders.push_back(cut);
    }
    if (parts > 1 || i + 1 == windows.size()) borders.push_back(end);
  }
  return borders;
}

}  // namespace

TileShape choose_tiles(std::int64_t num_tokens, std::int64_t batch, std::int64_t row_bytes,
                       std::int64_t l2_bytes, int threads, std::int64_t unit) {
  const std::int64_t fitting =
      std::clamp(l2_bytes / 3 / std::max<std::int64_t>(1, row_bytes), kFewestRows, kMostRows);
  std::int64_t count = divide_up(num_tokens, fitting);
  const std::int64_t wanted = divide_up(threads, std::max<std::int64_t>(1, batch));
  count = std::max(count, wanted);
  // An even share of the threads leaves none waiting for the last tile of a small image.
  if (batch == 1 && count < 8 * threads) count = divide_up(count, threads) * threads;
  const std::int64_t share = divide_up(num_tokens, count);
  const TileShape strips = shape_of(num_tokens, share, kStripRows);
  if (unit == kStripRows) return strips;
  const TileShape shape = shape_of(num_tokens, share, unit);
  constexpr std::int64_t kGranule = 16;  // of AMX
  // AMX multiplies as many rows while 16 bytes of weights a cycle come from the shared cache.
  constexpr std::int64_t kLeast = 64;
  const auto end_of = [&](const TileShape& tiles) {
    return busiest_rows(even_borders(num_tokens, tiles), HandedOut::first_to_last, batch, threads,
                        kGranule, kLeast);
  };
  return end_of(shape) > end_of(strips) ? strips : shape;
}

Borders even_borders(std::int64_t num_tokens, const TileShape& shape) {
  Borders borders;
  for (std::int64_t first = 0; first < num_tokens; first += shape.rows) borders.push_back(first);
  borders.push_back(num_tokens);
  return borders;
}

Borders window_borders(const Borders& windows, const TileShape& shape, std::int64_t batch,
                       int threads) {
  const auto end_of = [&](const Borders& tiles) {
    return busiest_rows(tiles, HandedOut::last_to_first, batch, threads, 1, 0);
  };
  Borders whole = borders_by_windows(windows, shape.rows, std::max(kMostRows, shape.rows));
  Borders cut = borders_by_windows(windows, shape.rows, shape.rows * 3 / 2 - 1);
  Borders even = even_borders(windows.back(), shape);
  if (20 * end_of(whole) <= 21 * std::min(end_of(cut), end_of(even))) return whole;
  return 32 * end_of(cut) > 33 * end_of(even) ? even : cut;
}

}  // namespace hydrascope::model::inference
