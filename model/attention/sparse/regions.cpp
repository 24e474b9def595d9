#include "model/attention/sparse/regions.h"

#include "model/attention/projection/patch_pooling.h"

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

Tensor are_apart(const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  const Tensor prefix = at::arange(grid.num_prefix, at::kLong);
  const Tensor owner =
      at::cat({prefix - (grid.num_prefix - grid.num_registers), register_of(grid)});
  const Tensor is_image = at::arange(grid.num_tokens(), at::kLong) >= grid.num_prefix;
  const Tensor is_register = owner.ge(0).logical_and(is_image.logical_not());
  const auto rows = [&](const Tensor& x) { return x.narrow(0, first, count).unsqueeze(1); };
  return rows(is_register)
      .logical_and(is_image)
      .logical_or(rows(is_image).logical_and(is_register))
      .logical_and(rows(owner).ne(owner));
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
