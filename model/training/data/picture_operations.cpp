#include "model/training/data/picture_operations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace hydrascope::model::training {
namespace {

using image::Picture;
using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

void replace(Picture& picture, const std::array<Table, 3>& tables) {
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) picture.rgb[i + c] = tables[c][picture.rgb[i + c]];
}

template <class Function>
void replace(Picture& picture, Function function) {
  Table table{};
  for (int value = 0; value < 256; ++value)
    table[value] = static_cast<std::uint8_t>(function(value));
  for (std::uint8_t& value : picture.rgb) value = table[value];
}

std::array<Histogram, 3> histograms(const Picture& picture) {
  std::array<Histogram, 3> counts{};
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][picture.rgb[i + c]];
  return counts;
}

Table identity() {
  Table table{};
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = static_cast<std::uint8_t>(value);
  return table;
}

Table stretched(const Histogram& counts) {
  const auto is_there = [](std::int64_t count) { return count > 0; };
  const auto lowest = std::find_if(counts.begin(), counts.end(), is_there) - counts.begin();
  const auto highest = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_there) - 1;
  if (highest <= lowest) return identity();
  const double scale = 255.0 / static_cast<double>(highest - lowest);
  const double offset = static_cast<double>(-lowest) * scale;
  Table table{};
  for (std::size_t value = 0; value < table.size(); ++value) {
    const double wanted = static_cast<double>(value) * scale + offset;
    table[value] = static_cast<std::uint8_t>(std::clamp(wanted, 0.0, 255.0));
  }
  return table;
}

Table flattened(const Histogram& counts) {
  std::int64_t total = 0;
  std::int64_t last = 0;
  for (const std::int64_t count : counts) {
    total += count;
    if (count > 0) last = count;
  }
  const std::int64_t step = (total - last) / 255;
  if (step == 0) return identity();
  Table table{};
  std::int64_t sum = step / 2;
  for (std::size_t value = 0; value < table.size(); ++value) {
    table[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(sum / step, 255));
    sum += counts[value];
  }
  return table;
}

/// ITU-R 601-2 luma with 16 bits, rounded.
std::uint8_t luma(const std::uint8_t* rgb) {
  const std::uint32_t sum = rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U;
  return static_cast<std::uint8_t>((sum + 0x8000U) >> 16);
}

/// Pillow's Image.blend: in float32, towards zero.
std::uint8_t blend(std::uint8_t from, std::uint8_t to, float factor) {
  const float value =
      static_cast<float>(from) + factor * static_cast<float>(static_cast<int>(to) - from);
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

/// Mean of the 3 x 3 neighbours, the middle counted five times; the border stays.
Picture smoothed(const Picture& picture) {
  Picture smooth = picture;
  const std::ptrdiff_t row = std::ptrdiff_t{picture.width} * 3;
  for (std::ptrdiff_t y = 1; y < picture.height - 1; ++y) {
    const std::uint8_t* in = picture.rgb.data() + y * row;
    std::uint8_t* out = smooth.rgb.data() + y * row;
    for (std::ptrdiff_t i = 3; i < row - 3; ++i) {
      int sum = 4 * in[i];
      for (const std::ptrdiff_t line : {i - row, i, i + row})
        sum += in[line - 3] + in[line] + in[line + 3];
      out[i] = static_cast<std::uint8_t>((2 * sum + 13) / 26);
    }
  }
  return smooth;
}

double linear(double a, double b, double t) { return a + (b - a) * t; }

/// Written in differences, as Pillow does, so that plain areas stay exactly what they are.
double cubic(double a, double b, double c, double d, double t) {
  const double first = c - a;
  const double second = 2 * (a - b) + c - d;
  const double third = b - a - c + d;
  return b + t * (first + t * (second + t * third));
}

/// Samples around a place between pixels; outside the border the border's samples repeat.
class Neighbourhood {
 public:
  Neighbourhood(const Picture& picture, double x, double y)
      : picture_(picture),
        x_(static_cast<std::int64_t>(std::floor(x))),
        y_(static_cast<std::int64_t>(std::floor(y))),
        dx_(x - static_cast<double>(x_)),
        dy_(y - static_cast<double>(y_)) {}

  void bilinear(std::uint8_t* rgb) const {
    const std::uint8_t* upper = row(0);
    const std::uint8_t* lower = row(1);
    const std::int64_t left = column(0);
    const std::int64_t right = column(1);
    for (std::int64_t c = 0; c < 3; ++c) {
      const double above = linear(upper[left + c], upper[right + c], dx_);
      const double below = linear(lower[left + c], lower[right + c], dx_);
      rgb[c] = static_cast<std::uint8_t>(linear(above, below, dy_));
    }
  }

  void bicubic(std::uint8_t* rgb) const {
    const std::array<std::int64_t, 4> columns{column(-1), column(0), column(1), column(2)};
    const auto along = [&](const std::uint8_t* line) {
      return cubic(line[columns[0]], line[columns[1]], line[columns[2]], line[columns[3]], dx_);
    };
    const std::array<const std::uint8_t*, 4> rows{row(-1), row(0), row(1), row(2)};
    for (std::int64_t c = 0; c < 3; ++c) {
      // Shears and shifts along the rows need one row.
      const double value = dy_ == 0 ? along(rows[1] + c)
                                    : cubic(along(rows[0] + c), along(rows[1] + c),
                                            along(rows[2] + c), along(rows[3] + c), dy_);
      rgb[c] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
  }

 private:
  [[nodiscard]] const std::uint8_t* row(std::int64_t step) const {
    const std::int64_t y = std::clamp<std::int64_t>(y_ + step, 0, picture_.height - 1);
    return picture_.rgb.data() + y * picture_.width * 3;
  }
  [[nodiscard]] std::int64_t column(std::int64_t step) const {
    return std::clamp<std::int64_t>(x_ + step, 0, picture_.width - 1) * 3;
  }

  const Picture& picture_;
  std::int64_t x_;
  std::int64_t y_;
  double dx_;
  double dy_;
};

}  // namespace

void stretch_contrast(Picture& picture) {
  const auto [red, green, blue] = histograms(picture);
  replace(picture, {stretched(red), stretched(green), stretched(blue)});
}

void equalize(Picture& picture) {
  const auto [red, green, blue] = histograms(picture);
  replace(picture, {flattened(red), flattened(green), flattened(blue)});
}

void invert(Picture& picture) {
  replace(picture, [](int value) { return 255 - value; });
}

void posterize(Picture& picture, int bits) {
  const int dropped = (1 << (8 - bits)) - 1;
  replace(picture, [&](int value) { return value & ~dropped; });
}

void solarize(Picture& picture, int threshold) {
  replace(picture, [&](int value) { return value < threshold ? value : 255 - value; });
}

void solarize_add(Picture& picture, int amount) {
  replace(picture, [&](int value) { return value < 128 ? std::min(255, value + amount) : value; });
}

void adjust_color(Picture& picture, double factor) {
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3) {
    std::uint8_t* rgb = picture.rgb.data() + i;
    const std::uint8_t grey = luma(rgb);
    for (std::size_t c = 0; c < 3; ++c) rgb[c] = blend(grey, rgb[c], static_cast<float>(factor));
  }
}

void adjust_contrast(Picture& picture, double factor) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3) sum += luma(picture.rgb.data() + i);
  const double mean = static_cast<double>(sum) / static_cast<double>(picture.rgb.size() / 3);
  const auto grey = static_cast<std::uint8_t>(mean + 0.5);
  replace(picture, [&](int value) {
    return blend(grey, static_cast<std::uint8_t>(value), static_cast<float>(factor));
  });
}

void adjust_brightness(Picture& picture, double factor) {
  replace(picture, [&](int value) {
    return blend(0, static_cast<std::uint8_t>(value), static_cast<float>(factor));
  });
}

void adjust_sharpness(Picture& picture, double factor) {
  const Picture smooth = smoothed(picture);
  for (std::size_t i = 0; i < picture.rgb.size(); ++i)
    picture.rgb[i] = blend(smooth.rgb[i], picture.rgb[i], static_cast<float>(factor));
}

AffineMap rotation(double degrees, image::Size size) {
  const double angle = degrees * std::numbers::pi / 180.0;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double x = static_cast<double>(size.width) / 2;
  const double y = static_cast<double>(size.height) / 2;
  return {cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y};
}

Picture transform(const Picture& picture, const AffineMap& map, image::Interpolation interpolation,
                  const std::array<std::uint8_t, 3>& fill) {
  Picture result{picture.width, picture.height, {}};
  result.rgb.resize(picture.rgb.size());
  std::uint8_t* out = result.rgb.data();
  for (int row = 0; row < picture.height; ++row) {
    for (int column = 0; column < picture.width; ++column, out += 3) {
      const double from_x = column + 0.5;
      const double from_y = row + 0.5;
      const double x = map[0] * from_x + map[1] * from_y + map[2];
      const double y = map[3] * from_x + map[4] * from_y + map[5];
      if (x < 0 || x >= picture.width || y < 0 || y >= picture.height) {
        std::copy(fill.begin(), fill.end(), out);
        continue;
      }
      const Neighbourhood around(picture, x - 0.5, y - 0.5);
      if (interpolation == image::Interpolation::bicubic) {
        around.bicubic(out);
      } else {
        around.bilinear(out);
      }
    }
  }
  return result;
}

}  // namespace hydrascope::model::training
