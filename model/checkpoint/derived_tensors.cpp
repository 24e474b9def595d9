#include "model/checkpoint/derived_tensors.h"

#include <algorithm>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

/// Bytes of one row of the first dimension.
std::size_t row_bytes(const TensorView& of) {
  const std::int64_t rows = of.shape.empty() ? 0 : of.shape.front();
  return rows > 0 ? of.data.size() / static_cast<std::size_t>(rows) : 0;
}

}  // namespace

const TensorView* DerivedTensors::reshaped(const TensorView& of, std::vector<std::int64_t> shape) {
  TensorView& view = views_.emplace_back(of);
  view.shape = std::move(shape);
  return &view;
}

const TensorView* DerivedTensors::rows(const TensorView& of, std::int64_t first,
                                       std::int64_t count) {
  const std::size_t row = row_bytes(of);
  TensorView& view = views_.emplace_back(of);
  view.shape.front() = count;
  view.data =
      of.data.subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  return &view;
}

const TensorView* DerivedTensors::transposed(const TensorView& of) {
  const std::size_t element = size_of(of.dtype);
  const auto height = static_cast<std::size_t>(of.shape.at(0));
  const auto width = static_cast<std::size_t>(of.shape.at(1));
  std::vector<std::byte> bytes(of.data.size());
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column) {
      const auto from = of.data.subspan((row * width + column) * element, element);
      std::ranges::copy(
          from, bytes.begin() + static_cast<std::ptrdiff_t>((column * height + row) * element));
    }
  }
  return add(of, {of.shape[1], of.shape[0]}, std::move(bytes));
}

const TensorView* DerivedTensors::zeros(const TensorView& like, std::vector<std::int64_t> shape) {
  std::size_t bytes = size_of(like.dtype);
  for (const std::int64_t edge : shape) bytes *= static_cast<std::size_t>(edge);
  return add(like, std::move(shape), std::vector<std::byte>(bytes));
}

const TensorView* DerivedTensors::zeroed(const TensorView& of, std::int64_t first,
                                         std::int64_t count) {
  std::vector<std::byte> bytes(of.data.begin(), of.data.end());
  const std::size_t row = row_bytes(of);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * row),
              static_cast<std::size_t>(count) * row, std::byte{});
  return add(of, of.shape, std::move(bytes));
}

const TensorView* DerivedTensors::with_rows(const TensorView& table, std::int64_t at,
                                            std::int64_t count) {
  const std::size_t row = table.data.size() / static_cast<std::size_t>(table.shape.at(1));
  std::vector<std::byte> bytes(table.data.begin(), table.data.end());
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * row),
               static_cast<std::size_t>(count) * row, std::byte{});
  return add(table, {1, table.shape[1] + count, table.shape[2]}, std::move(bytes));
}

const TensorView* DerivedTensors::add(const TensorView& like, std::vector<std::int64_t> shape,
                                      std::vector<std::byte> bytes) {
  const std::vector<std::byte>& kept = bytes_.emplace_back(std::move(bytes));
  return &views_.emplace_back(TensorView{like.name, like.dtype, std::move(shape), kept});
}

}  // namespace hydrascope::checkpoint
