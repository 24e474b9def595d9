#include "model/image/upright.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace hydrascope::image {
namespace {

constexpr std::size_t kPixel = 3;

void mirror_rows(Picture& picture) {
  const std::size_t row = static_cast<std::size_t>(picture.width) * kPixel;
  for (std::uint8_t* left = picture.rgb.data(); left != picture.rgb.data() + picture.rgb.size();
       left += row) {
    std::uint8_t* from = left;
    std::uint8_t* to = left + row - kPixel;
    for (; from < to; from += kPixel, to -= kPixel) std::swap_ranges(from, from + kPixel, to);
  }
}

void flip_rows(Picture& picture) {
  const std::size_t row = static_cast<std::size_t>(picture.width) * kPixel;
  std::uint8_t* upper = picture.rgb.data();
  std::uint8_t* lower = upper + picture.rgb.size() - row;
  for (; upper < lower; upper += row, lower -= row) std::swap_ranges(upper, upper + row, lower);
}

void transpose_into_copy(Picture& picture) {
  const auto height = static_cast<std::size_t>(picture.height);
  const auto width = static_cast<std::size_t>(picture.width);
  std::vector<std::uint8_t> turned(picture.rgb.size());
  constexpr std::size_t kBlock = 32;
  for (std::size_t top = 0; top < height; top += kBlock) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t y = top; y < std::min(top + kBlock, height); ++y)
        std::copy_n(picture.rgb.data() + (y * width + x) * kPixel, kPixel,
                    turned.data() + (x * height + y) * kPixel);
    }
  }
  picture.rgb = std::move(turned);
}

/// Catanzaro, Keller and Garland 2014, A decomposition for in-place matrix transposition
/// (doi 10.1145/2555243.2555253): columns are rotated, pixels moved within rows, then within columns.
void transpose_in_place(Picture& picture) {
  const auto m = static_cast<std::size_t>(picture.height);
  const auto n = static_cast<std::size_t>(picture.width);
  const std::size_t common = std::gcd(m, n);
  const std::size_t a = m / common;
  const std::size_t b = n / common;
  std::uint8_t* rgb = picture.rgb.data();
  // Several columns at a time: a row of them is the unit in which memory is read.
  constexpr std::size_t kColumns = 64;
  std::vector<std::uint8_t> kept(std::max(m * std::min(kColumns, n), n) * kPixel);
  const auto move_in_columns = [&](const auto& source_of) {
    for (std::size_t first = 0; first < n; first += kColumns) {
      const std::size_t count = std::min(kColumns, n - first);
      for (std::size_t i = 0; i < m; ++i)
        std::copy_n(rgb + (i * n + first) * kPixel, count * kPixel,
                    kept.data() + i * count * kPixel);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < count; ++j)
          std::copy_n(kept.data() + (source_of(i, first + j) * count + j) * kPixel, kPixel,
                      rgb + (i * n + first + j) * kPixel);
      }
    }
  };
  if (common > 1) move_in_columns([&](std::size_t i, std::size_t j) { return (i + j / b) % m; });
  for (std::size_t i = 0; i < m; ++i) {
    std::uint8_t* row = rgb + i * n * kPixel;
    std::copy_n(row, n * kPixel, kept.data());
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t to = ((i + j / b) % m + j * m) % n;
      std::copy_n(kept.data() + j * kPixel, kPixel, row + to * kPixel);
    }
  }
  move_in_columns([&](std::size_t i, std::size_t j) { return (j + i * n + m - i / a % m) % m; });
}

void transpose(Picture& picture) {
  constexpr std::size_t kSmall = std::size_t{48} << 20;
  if (picture.rgb.size() <= kSmall) {
    transpose_into_copy(picture);
  } else {
    transpose_in_place(picture);
  }
  std::swap(picture.width, picture.height);
}

}  // namespace

// Every orientation is a transposition or none, then mirrored rows and columns (Exif 2.32, 4.6.4 A,
// tag 0x0112).
void make_upright(Picture& picture, int orientation) {
  if (orientation < 2 || orientation > 8) return;
  if (orientation >= 5) transpose(picture);
  if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)
    mirror_rows(picture);
  if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)
    flip_rows(picture);
}

}  // namespace hydrascope::image
