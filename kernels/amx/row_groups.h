// Cuts any number of rows into tiles of 16. The last tile of 16 ends at the last row and overlaps
// the tile before it instead of being shorter: a product of 16 rows takes less time than the
// leftover rows would by vectors, one configuration serves the whole call, and every cut rounds a
// row the same way, so that results depend neither on the tiling nor on the threads. Fewer than 16
// rows are one tile of as many rows. Test: tests/kernels/amx/tile_product_test.cpp.
#pragma once

#include "kernels/amx/tile_configuration.h"
#include "kernels/amx/tile_product.h"

#include <cstdint>

namespace hydrascope::kernels::amx {

/// Rows first .. first + tile_rows(rows); another tile writes the leading `done` of them.
struct RowTile {
  std::int64_t first;
  int done;
};

/// One or two tiles that pass over the panel together.
struct RowGroup {
  RowTile tile[2];
  int tiles;
};

constexpr int tile_rows(std::int64_t rows) {
  return rows < kTileRows ? static_cast<int>(rows) : kTileRows;
}

constexpr RowTile row_tile(std::int64_t rows, std::int64_t from) {
  if (rows <= kTileRows || from + kTileRows <= rows) return {from, 0};
  return {rows - kTileRows, static_cast<int>(from + kTileRows - rows)};
}

/// The group at row `from`, a multiple of kGroupRows below `rows`.
constexpr RowGroup row_group(std::int64_t rows, std::int64_t from) {
  const bool two = from + kTileRows < rows;
  return {{row_tile(rows, from), row_tile(rows, two ? from + kTileRows : from)}, two ? 2 : 1};
}

}  // namespace hydrascope::kernels::amx
