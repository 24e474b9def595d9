#include "model/attention/sparse/tile_pattern.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

class TilePattern final : public KeyPattern {
 public:
  TilePattern(const GridExtent& size, std::function<KeysOfTile(const Tiles&)> keys_of)
      : size_(size), keys_of_(std::move(keys_of)) {}

  [[nodiscard]] Tensor rows(const TokenGrid& grid, std::int64_t first,
                            std::int64_t count) const override {
    Tensor sees = at::zeros({count, grid.num_patches()}, at::kBool);
    bool* const values = sees.mutable_data_ptr<bool>();
    const Tiles tiles(grid, size_);
    const KeysOfTile keys_of_tile = keys_of_(tiles);
    for (std::int64_t t = 0; t < tiles.count(); ++t) {
      const std::vector<std::int64_t> keys = keys_of_tile(t);
      for (const std::int64_t query : tiles.patches(t)) {
        if (query < first || query >= first + count) continue;
        for (const std::int64_t key : keys)
          values[(query - first) * grid.num_patches() + key] = true;
      }
    }
    return sees;
  }

  [[nodiscard]] std::vector<std::vector<KeyGroups>> passes(const TokenGrid& grid) const override {
    struct Tensors {
      std::vector<Tensor> queries, keys;
    };
    std::map<std::pair<std::size_t, std::size_t>, Tensors> by_shape;
    const Tiles tiles(grid, size_);
    const KeysOfTile keys_of_tile = keys_of_(tiles);
    for (std::int64_t t = 0; t < tiles.count(); ++t) {
      const std::vector<std::int64_t> queries = tiles.patches(t);
      const std::vector<std::int64_t> keys = keys_of_tile(t);
      Tensors& alike = by_shape[{queries.size(), keys.size()}];
      alike.queries.push_back(at::tensor(queries, at::kLong));
      alike.keys.push_back(at::tensor(keys, at::kLong));
    }
    std::vector<KeyGroups> groups;
    for (const auto& [shape, alike] : by_shape)
      groups.push_back({at::stack(alike.queries), at::stack(alike.keys), {}});
    return {groups};
  }

  [[nodiscard]] double num_pairs(const TokenGrid& grid) const override {
    const Tiles tiles(grid, size_);
    const KeysOfTile keys_of_tile = keys_of_(tiles);
    double pairs = 0;
    for (std::int64_t t = 0; t < tiles.count(); ++t)
      pairs += static_cast<double>(tiles.patches(t).size() * keys_of_tile(t).size());
    return pairs;
  }

 private:
  GridExtent size_;
  std::function<KeysOfTile(const Tiles&)> keys_of_;
};

}  // namespace

std::vector<std::int64_t> Tiles::patches(std::int64_t t) const {
  const std::int64_t row = t / columns_.count();
  const std::int64_t column = t % columns_.count();
  std::vector<std::int64_t> list;
  for (std::int64_t r = rows_.begin(row); r < rows_.begin(row + 1); ++r) {
    for (std::int64_t c = columns_.begin(column); c < columns_.begin(column + 1); ++c)
      list.push_back(r * columns_.length + c);
  }
  return list;
}

std::vector<std::int64_t> Tiles::central_patches(std::int64_t t, std::int64_t count) const {
  std::vector<std::int64_t> list = patches(t);
  const auto sum_of_ends = [](const BalancedIntervals& axis, std::int64_t index) {
    return axis.begin(index) + axis.begin(index + 1) - 1;
  };
  const std::int64_t middle_row = sum_of_ends(rows_, t / columns_.count());
  const std::int64_t middle_column = sum_of_ends(columns_, t % columns_.count());
  // In half patches, squared.
  const auto distance = [&](std::int64_t patch) {
    const std::int64_t down = 2 * (patch / columns_.length) - middle_row;
    const std::int64_t right = 2 * (patch % columns_.length) - middle_column;
    return down * down + right * right;
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
  list.resize(std::min(list.size(), static_cast<std::size_t>(count)));
  std::sort(list.begin(), list.end());
  return list;
}

std::unique_ptr<KeyPattern> tile_pattern(const GridExtent& size,
                                         std::function<KeysOfTile(const Tiles& tiles)> keys_of) {
  return std::make_unique<TilePattern>(size, std::move(keys_of));
}

}  // namespace hydrascope::model
