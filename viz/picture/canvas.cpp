#include "viz/picture/canvas.h"

#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

namespace hydrascope::viz {
namespace {

const std::uint8_t* pixel(const Canvas& canvas, int x, int y) {
  return viz::pixel(const_cast<Canvas&>(canvas), x, y);
}

/// The part of `length` pixels from `start` on that lies within 0 .. limit.
struct Clipped {
  int begin;
  int end;
};
Clipped clipped(int start, int length, int limit) {
  const std::int64_t end = std::int64_t{start} + length;
  return {std::clamp(start, 0, limit), static_cast<int>(std::clamp<std::int64_t>(end, 0, limit))};
}

/// The pixels of one edge that a new pixel is made of, and their shares (which add up to 1).
struct Source {
  int first;
  std::vector<float> shares;
};

/// Shrinking: what a new pixel covers of each. Growing: linear between centres.
std::vector<Source> sources(int from, int to) {
  std::vector<Source> all;
  all.reserve(static_cast<std::size_t>(to));
  const double ratio = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    if (to > from) {
      const double centre = std::clamp((i + 0.5) * ratio - 0.5, 0.0, from - 1.0);
      const int first = std::min(static_cast<int>(centre), std::max(from - 2, 0));
      const auto share = static_cast<float>(centre - first);
      all.push_back(
          {first, share > 0 ? std::vector<float>{1 - share, share} : std::vector<float>{1}});
      continue;
    }
    const double begin = i * ratio;
    const double end = std::min((i + 1) * ratio, static_cast<double>(from));
    Source source{static_cast<int>(begin), {}};
    for (int p = source.first; p < from && p < end; ++p) {
      const double covered = std::min(end, p + 1.0) - std::max(begin, p + 0.0);
      source.shares.push_back(static_cast<float>(covered / (end - begin)));
    }
    all.push_back(std::move(source));
  }
  return all;
}

/// `row` (width, 3) at the new width.
void resize_row(const std::uint8_t* row, const std::vector<Source>& columns,
                std::vector<float>& resized) {
  float* to = resized.data();
  for (const Source& source : columns) {
    float sum[3] = {};
    const std::uint8_t* from = row + 3 * std::ptrdiff_t{source.first};
    for (const float share : source.shares)
      for (float& channel : sum) channel += share * static_cast<float>(*from++);
    to = std::copy(std::begin(sum), std::end(sum), to);
  }
}

}  // namespace

std::uint8_t* pixel(Canvas& canvas, int x, int y) {
  return canvas.rgb.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(canvas.width) +
                              static_cast<std::size_t>(x)) *
                                 3;
}

Canvas filled(int width, int height, Color color) {
  if (width < 0 || height < 0)
    throw Error(ErrorCode::internal, "a canvas has no negative size", "canvas");
  Canvas canvas{width, height, {}};
  canvas.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  fill_rectangle(canvas, 0, 0, width, height, color);
  return canvas;
}

void paste(Canvas& onto, const Canvas& from, int x, int y) {
  const Clipped columns = clipped(x, from.width, onto.width);
  const Clipped rows = clipped(y, from.height, onto.height);
  if (columns.begin >= columns.end) return;
  const auto bytes = static_cast<std::size_t>(columns.end - columns.begin) * 3;
  for (int row = rows.begin; row < rows.end; ++row)
    std::memcpy(pixel(onto, columns.begin, row), pixel(from, columns.begin - x, row - y), bytes);
}

void fill_rectangle(Canvas& canvas, int x, int y, int width, int height, Color color) {
  const Clipped columns = clipped(x, width, canvas.width);
  const Clipped rows = clipped(y, height, canvas.height);
  for (int row = rows.begin; row < rows.end; ++row) {
    std::uint8_t* to = pixel(canvas, columns.begin, row);
    for (int column = columns.begin; column < columns.end; ++column) {
      *to++ = color.red;
      *to++ = color.green;
      *to++ = color.blue;
    }
  }
}

Size fitted_size(Size size, int width, int height) {
  if (size.width < 1 || size.height < 1 || width < 1 || height < 1)
    throw Error(ErrorCode::internal, "fitting needs at least one pixel on either side", "canvas");
  const double ratio =
      std::min(static_cast<double>(width) / size.width, static_cast<double>(height) / size.height);
  const auto scaled = [ratio](int edge, int most) {
    return static_cast<int>(std::clamp<std::int64_t>(std::llround(edge * ratio), 1, most));
  };
  return {scaled(size.width, width), scaled(size.height, height)};
}

Canvas fitted(const Canvas& canvas, int width, int height) {
  const Size size = fitted_size(size_of(canvas), width, height);
  if (size == size_of(canvas)) return canvas;
  Canvas result = filled(size.width, size.height, {});

  const std::vector<Source> columns = sources(canvas.width, result.width);
  const std::vector<Source> rows = sources(canvas.height, result.height);
  const auto length = static_cast<std::size_t>(result.width) * 3;
  std::vector<float> row(length);
  std::vector<float> sum(length);
  for (int y = 0; y < result.height; ++y) {
    const Source& source = rows[static_cast<std::size_t>(y)];
    std::ranges::fill(sum, 0.5F);
    int from = source.first;
    for (const float share : source.shares) {
      resize_row(pixel(canvas, 0, from++), columns, row);
      for (std::size_t i = 0; i < length; ++i) sum[i] += share * row[i];
    }
    std::uint8_t* to = pixel(result, 0, y);
    for (std::size_t i = 0; i < length; ++i)
      to[i] = static_cast<std::uint8_t>(std::min(sum[i], 255.5F));
  }
  return result;
}

}  // namespace hydrascope::viz
