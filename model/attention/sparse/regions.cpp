#include "model/attention/sparse/regions.h"

#include "model/attention/patch_pooling.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <map>

namespace hydrascope::model {

using at::Tensor;

Tensor register_of(const TokenGrid& grid) {
  std::vector<Tensor> parts;
  const auto add = [&](std::int64_t rows, std::int64_t columns) {
    if (rows * columns == 0) return;
    const GridExtent cells = cells_of({rows, columns}, grid.num_registers);
    const auto along = [](std::int64_t length, std::int64_t count) {
      return (at::arange(length, at::kLong) * count).div(length, "floor");
    };
    parts.push_back((along(rows, cells.rows).unsqueeze(1) * cells.columns +
                     along(columns, cells.columns).unsqueeze(0))
                        .flatten()
                        .remainder(grid.num_registers));
  };
  add(grid.rows, grid.columns);
  add(grid.overview_rows, grid.overview_columns);
  return parts.empty() ? at::empty({0}, at::kLong) : at::cat(parts);
}

std::vector<KeyGroups> region_groups(const TokenGrid& grid) {
  const Tensor owner = register_of(grid);
  std::map<std::int64_t, std::vector<KeyGroups>> by_size;
  for (std::int64_t r = 0; r < grid.num_registers; ++r) {
    const Tensor patches = owner.eq(r).nonzero().view({1, -1});
    if (patches.numel() == 0) continue;
    // The registers lie in front of the first patch.
    const Tensor key = at::full({1, 1}, r - grid.num_registers, at::kLong);
    by_size[patches.size(1)].push_back({patches, key, {}});
  }
  std::vector<KeyGroups> groups;
  for (const auto& [size, alike] : by_size) {
    std::vector<Tensor> queries, keys;
    for (const KeyGroups& one : alike) {
      queries.push_back(one.queries);
      keys.push_back(one.keys);
    }
    groups.push_back({at::cat(queries), at::cat(keys), {}});
  }
  return groups;
}

}  // namespace hydrascope::model
