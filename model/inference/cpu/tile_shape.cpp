#include "model/inference/cpu/tile_shape.h"

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/product_cut.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hydrascope::model::inference {
namespace {

// Every tile loads all of a layer's weights. Fewer rows do not pay for that even if the activations
// of so many overflow the L2 cache (measured for D = 768: 48 rows cost 4 %, 36 rows in float32
// 10 %; from 96 to 384 rows the time is the same within 2 %).
constexpr std::int64_t kFewestRows = 132;
constexpr std::int64_t kMostRows = 384;

TileShape shape_of(std::int64_t num_tokens, std::int64_t least_rows, std::int64_t unit) {
  TileShape shape;
  shape.rows = std::max(unit, divide_up(least_rows, unit) * unit);
  shape.count = divide_up(num_tokens, shape.rows);
  return shape;
}

/// Work of a tile that does not follow its rows.
struct TileCost {
  std::int64_t granule = 1;  ///< so many rows are computed even of fewer
  std::int64_t least = 0;    ///< no tile takes less time than so many rows
  std::int64_t more = 0;     ///< rows that each tile costs beside its own
};

/// Rows after which the last thread ends.
double busiest_rows(const Borders& tiles, std::int64_t batch, int threads, const TileCost& cost) {
  std::vector<double> items;
  for (std::int64_t image = 0; image < batch; ++image)
    for (std::size_t end = tiles.size() - 1; end > 0; --end) {
      const std::int64_t rows = divide_up(tiles[end] - tiles[end - 1], cost.granule) * cost.granule;
      items.push_back(static_cast<double>(std::max(rows, cost.least) + cost.more));
    }
  return kernels::device::end_of_run(items, threads);
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
  // AMX multiplies 64 rows while 16 bytes of weights a cycle come from the shared cache.
  const TileCost cost =
      unit == kStripRows ? TileCost{1, 0, kWeightRows} : TileCost{16, 64, kWeightRows};
  constexpr std::int64_t kManyTiles = 8;  // of a thread: their number changes little
  const std::int64_t fitting =
      std::clamp(l2_bytes / 3 / std::max<std::int64_t>(1, row_bytes), kFewestRows, kMostRows);
  const std::int64_t count = std::max(divide_up(num_tokens, fitting), divide_up(threads, batch));
  std::vector<std::int64_t> counts{count};
  if (batch * count < kManyTiles * threads) {
    const std::int64_t fewer = batch * count / threads * threads / batch;
    if (fewer > 0 && divide_up(num_tokens, fewer) <= std::max(fitting, kMostRows / 2))
      counts.insert(counts.begin(), fewer);
    counts.push_back(divide_up(divide_up(batch * count, threads) * threads, batch));
  }
  TileShape best;
  double soonest = 0;
  const auto try_shape = [&](const TileShape& shape) {
    const double end = busiest_rows(even_borders(num_tokens, shape), batch, threads, cost);
    if (best.rows > 0 && end >= soonest) return;
    best = shape;
    soonest = end;
  };
  for (const std::int64_t tiles : counts) {
    const std::int64_t share = divide_up(num_tokens, tiles);
    try_shape(shape_of(num_tokens, share, unit));
    if (unit != kStripRows) try_shape(shape_of(num_tokens, share, kStripRows));
  }
  return best;
}

TileShape choose_tiles_of_heads(std::int64_t num_tokens, std::int64_t batch, std::int64_t heads,
                                int threads) {
  TileShape best;
  std::int64_t soonest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t fewest = divide_up(num_tokens, kMostRows);
  for (std::int64_t count = fewest; count <= std::max<std::int64_t>(fewest, threads); ++count) {
    const TileShape shape = shape_of(num_tokens, divide_up(num_tokens, count), kStripRows);
    const std::int64_t groups = head_groups(batch * shape.count, heads, threads);
    const std::int64_t time = divide_up(batch * shape.count * groups, threads) *
                              divide_up(heads, groups) * (shape.rows + kWeightRows);
    if (time >= soonest) continue;
    soonest = time;
    best = shape;
  }
  return best;
}

double time_of_tiles(const Borders& tiles, std::int64_t batch, int threads) {
  return busiest_rows(tiles, batch, threads, {1, 0, kWeightRows});
}

Borders even_borders(std::int64_t num_tokens, const TileShape& shape) {
  Borders borders;
  for (std::int64_t first = 0; first < num_tokens; first += shape.rows) borders.push_back(first);
  borders.push_back(num_tokens);
  return borders;
}

Borders window_borders(const Borders& windows, const TileShape& shape, std::int64_t batch,
                       int threads) {
  const auto end_of = [&](const Borders& tiles) { return busiest_rows(tiles, batch, threads, {}); };
  Borders whole = borders_by_windows(windows, shape.rows, std::max(kMostRows, shape.rows));
  Borders cut = borders_by_windows(windows, shape.rows, shape.rows * 3 / 2 - 1);
  Borders even = even_borders(windows.back(), shape);
  if (20 * end_of(whole) <= 21 * std::min(end_of(cut), end_of(even))) return whole;
  return 32 * end_of(cut) > 33 * end_of(even) ? even : cut;
}

}  // namespace hydrascope::model::inference
