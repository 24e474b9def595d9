#include "model/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <numeric>
#include <optional>
#include <vector>

namespace hydrascope::image {
namespace {

constexpr std::int64_t kChannels = 3;

/// Keys' cubic with a = -1/2, in ATen's order of operations.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return 0;
}

double triangle(double x) { return std::max(1 - std::abs(x), 0.0); }

/// The parts of each output pixel of an axis: `count` source pixels from `first` on.
class Filter {
 public:
  Filter(std::int64_t from, std::int64_t to, Interpolation interpolation)
      : from_(from),
        scale_(static_cast<double>(from) / static_cast<double>(to)),
        kernel_(interpolation == Interpolation::bicubic ? cubic : triangle),
        support_((interpolation == Interpolation::bicubic ? 2 : 1) * std::max(scale_, 1.0)) {}

  /// Most weights of an output pixel.
  [[nodiscard]] std::int64_t most() const {
    return static_cast<std::int64_t>(std::ceil(support_)) * 2 + 1;
  }

  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  [[nodiscard]] Range range(std::int64_t pixel) const {
    const double centre = centre_of(pixel);
    const auto first =
        std::max<std::int64_t>(static_cast<std::int64_t>(centre - support_ + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(centre + support_ + 0.5), from_);
    return {first, std::clamp<std::int64_t>(end - first, 0, most())};
  }

  /// Computes the weights of `range(pixel)`, whose sum is 1, and returns the largest.
  double weigh(std::int64_t pixel, double* weights) const {
    const auto [first, count] = range(pixel);
    const double centre = centre_of(pixel);
    const double narrowing = scale_ >= 1 ? 1 / scale_ : 1;
    double total = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      weights[i] = kernel_((static_cast<double>(i + first) - centre + 0.5) * narrowing);
      total += weights[i];
    }
    double largest = 0;
    for (std::int64_t i = 0; i < count && total != 0; ++i) {
      weights[i] /= total;
      largest = std::max(largest, weights[i]);
    }
    return largest;
  }

 private:
  [[nodiscard]] double centre_of(std::int64_t pixel) const {
    return scale_ * (static_cast<double>(pixel) + 0.5);
  }

  std::int64_t from_;
  double scale_;
  double (*kernel_)(double);
  double support_;
};

/// The weights of a window along an axis as 16-bit integers, multiplied by 2^precision; their rows
/// end in zeros and have a length of fours, as the loops below take two or four at a time.
struct Taps {
  std::vector<Filter::Range> ranges;
  std::int64_t row = 0;
  int precision = 0;
  std::vector<std::int16_t> weights;

  [[nodiscard]] const std::int16_t* of(std::int64_t i) const { return weights.data() + i * row; }
  [[nodiscard]] std::int64_t most() const {
    std::int64_t count = 0;
    for (const Filter::Range& range : ranges) count = std::max(count, range.count);
    return count;
  }
};

/// Bits that the largest weight of the whole axis leaves. Weights repeat after to / gcd(from, to)
/// pixels; within a million pixels they come close enough to the largest one.
int precision_of(const Filter& filter, std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kEnough = std::int64_t{1} << 20;
  std::vector<double> weights(static_cast<std::size_t>(filter.most()));
  double largest = 0;
  const std::int64_t period = std::min(to / std::gcd(from, to), kEnough);
  // Pixels near the ends have fewer and thus larger weights.
  const std::int64_t edge =
      std::min(to, period +
                       static_cast<std::int64_t>(
                           std::ceil(static_cast<double>(3 * to) / static_cast<double>(from))) +
                       3);
  for (std::int64_t i = 0; i < edge; ++i) {
    largest = std::max(
        {largest, filter.weigh(i, weights.data()), filter.weigh(to - 1 - i, weights.data())});
  }
  int precision = 0;
  while (precision < 22 &&
         static_cast<int>(0.5 + largest * static_cast<double>(1 << (precision + 1))) < (1 << 15))
    ++precision;
  return precision;
}

Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count,
             Interpolation interpolation) {
  const Filter filter(from, to, interpolation);
  Taps taps;
  taps.precision = precision_of(filter, from, to);
  taps.row = (filter.most() + 3) / 4 * 4;
  taps.weights.resize(static_cast<std::size_t>(count * taps.row));
  std::vector<double> weights(static_cast<std::size_t>(taps.row));
  std::int16_t* out = taps.weights.data();
  for (std::int64_t i = 0; i < count; ++i, out += taps.row) {
    taps.ranges.push_back(filter.range(first + i));
    filter.weigh(first + i, weights.data());
    for (std::int64_t t = 0; t < taps.ranges.back().count; ++t) {
      const double scaled =
          weights[static_cast<std::size_t>(t)] * static_cast<double>(1 << taps.precision);
      out[t] = static_cast<std::int16_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  }
  return taps;
}

__m128i pair_of(const std::int16_t* weights) {
  std::int32_t both = 0;
  std::memcpy(&both, weights, sizeof both);
  return _mm_set1_epi32(both);
}

/// Sums of 32 bits, scaled back, as bytes: 4 of them from each argument.
__m128i to_bytes(__m128i a, __m128i b, __m128i c, __m128i d, __m128i precision) {
  const __m128i low = _mm_packs_epi32(_mm_sra_epi32(a, precision), _mm_sra_epi32(b, precision));
  const __m128i high = _mm_packs_epi32(_mm_sra_epi32(c, precision), _mm_sra_epi32(d, precision));
  return _mm_packus_epi16(low, high);
}

/// Four taps at a time; the sums of integers are the same.
__attribute__((target("avx2"))) void resample_row_by_avx2(const std::uint8_t* x,
                                                          std::int64_t origin, const Taps& taps,
                                                          std::uint8_t* y) {
  // Two pixels in each half: red of both, green of both, blue of both, as 16 bits.
  const __m256i pairs_of =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                       -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i weight_of = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m128i half = _mm_set1_epi32(1 << (taps.precision - 1));
  const __m128i precision = _mm_cvtsi32_si128(taps.precision);
  const std::int16_t* weights = taps.weights.data();
  for (const auto& [first, count] : taps.ranges) {
    const std::uint8_t* pixel = x + (first - origin) * kChannels;
    __m256i sum = _mm256_castsi128_si256(half);
    sum = _mm256_inserti128_si256(sum, _mm_setzero_si128(), 1);
    for (std::int64_t t = 0; t < count; t += 4, pixel += 4 * kChannels) {
      const __m256i twice =
          _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel)));
      const __m256i four =
          _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + t)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(twice, pairs_of),
                                                    _mm256_permutevar8x32_epi32(four, weight_of)));
    }
    const __m128i both =
        _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const int three = _mm_cvtsi128_si32(to_bytes(both, both, both, both, precision));
    std::memcpy(y, &three, kChannels);
    y += kChannels;
    weights += taps.row;
  }
}

/// One row: `x` holds the pixels from `origin`, by which taps count, and 16 bytes after the last.
void resample_row(const std::uint8_t* x, std::int64_t origin, const Taps& taps, std::uint8_t* y) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return resample_row_by_avx2(x, origin, taps, y);
  const __m128i zero = _mm_setzero_si128();
  const __m128i half = _mm_set1_epi32(1 << (taps.precision - 1));
  const __m128i precision = _mm_cvtsi32_si128(taps.precision);
  const std::int16_t* weights = taps.weights.data();
  for (const auto& [first, count] : taps.ranges) {
    const std::uint8_t* pixel = x + (first - origin) * kChannels;
    __m128i sum = half;
    for (std::int64_t t = 0; t < count; t += 2, pixel += 2 * kChannels) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixel));
      // Red of both pixels, green of both, blue of both.
      const __m128i pairs = _mm_unpacklo_epi8(
          _mm_unpacklo_epi8(eight, _mm_srli_si128(eight, static_cast<int>(kChannels))), zero);
      sum = _mm_add_epi32(sum, _mm_madd_epi16(pairs, pair_of(weights + t)));
    }
    const int three = _mm_cvtsi128_si32(to_bytes(sum, sum, sum, sum, precision));
    std::memcpy(y, &three, kChannels);
    y += kChannels;
    weights += taps.row;
  }
}

/// A weighted sum of `count` rows, `bytes` of each. The missing second row of a pair has a weight
/// of zero.
void weigh_rows(const std::uint8_t* const* rows, std::int64_t count, const std::int16_t* weights,
                int precision, std::int64_t bytes, std::uint8_t* y) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i half = _mm_set1_epi32(1 << (precision - 1));
  const __m128i shift = _mm_cvtsi32_si128(precision);
  constexpr std::int64_t kStep = 16;
  std::int64_t at = 0;
  for (; at + kStep <= bytes; at += kStep) {
    __m128i sums[4]{half, half, half, half};
    for (std::int64_t t = 0; t < count; t += 2) {
      const std::uint8_t* second = rows[t + 1 < count ? t + 1 : t];
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[t] + at));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second + at));
      const __m128i pair = pair_of(weights + t);
      const __m128i low = _mm_unpacklo_epi8(a, b);
      const __m128i high = _mm_unpackhi_epi8(a, b);
      const __m128i samples[4]{_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                               _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
      for (int i = 0; i < 4; ++i)
        sums[i] = _mm_add_epi32(sums[i], _mm_madd_epi16(samples[i], pair));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + at),
                     to_bytes(sums[0], sums[1], sums[2], sums[3], shift));
  }
  for (; at < bytes; ++at) {
    std::int32_t sum = 1 << (precision - 1);
    for (std::int64_t t = 0; t < count; ++t) sum += weights[t] * rows[t][at];
    y[at] = static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
  }
}

/// Pillow's `L` of a pixel, ITU-R 601-2 in 16 bits.
std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >>
                                   16);
}

/// The pixels of the picture's rows that a window needs, one row after the other: unchanged, in
/// grey, resampled along the row, or both. Computed rows are kept as long as they may be needed.
class Rows {
 public:
  /// The pixels [first, first + count) of each row, of which the last `kept` are needed at a time;
  /// with `columns` the pixels resampled by these taps.
  Rows(const Picture& picture, Filter::Range pixels, const Taps* columns, bool is_grey,
       std::int64_t kept)
      : picture_(picture), pixels_(pixels), columns_(columns), is_grey_(is_grey), kept_(kept) {
    if (is_computed()) ring_.resize(static_cast<std::size_t>(kept * num_bytes()));
    // Four taps at a time are read, 16 bytes of them.
    if (columns != nullptr) row_.resize(static_cast<std::size_t>(pixels.count * kChannels) + 16);
  }

  [[nodiscard]] std::int64_t num_bytes() const {
    return kChannels * (columns_ != nullptr ? static_cast<std::int64_t>(columns_->ranges.size())
                                            : pixels_.count);
  }
  /// Row `y`; no call may ask for a row that came `kept` or more before one already asked for.
  const std::uint8_t* at(std::int64_t y) {
    if (!is_computed()) return source(y);
    std::uint8_t* out = ring_.data() + y % kept_ * num_bytes();
    if (y < next_) return out;
    next_ = y + 1;
    copy(source(y), columns_ != nullptr ? row_.data() : out);
    if (columns_ != nullptr) resample_row(row_.data(), pixels_.first, *columns_, out);
    return out;
  }

 private:
  [[nodiscard]] bool is_computed() const { return columns_ != nullptr || is_grey_; }
  [[nodiscard]] const std::uint8_t* source(std::int64_t y) const {
    return picture_.rgb.data() + (y * picture_.width + pixels_.first) * kChannels;
  }
  void copy(const std::uint8_t* row, std::uint8_t* out) const {
    if (!is_grey_) {
      std::copy_n(row, pixels_.count * kChannels, out);
      return;
    }
    for (std::int64_t i = 0; i < pixels_.count; ++i, row += kChannels)
      out = std::fill_n(out, kChannels, luma(row));
  }

  const Picture& picture_;
  Filter::Range pixels_;
  const Taps* columns_;
  bool is_grey_;
  std::int64_t kept_;
  std::int64_t next_ = 0;  ///< the first row that was not yet computed
  std::vector<std::uint8_t> ring_;
  std::vector<std::uint8_t> row_;
};

/// The pixels that the taps of a window need.
Filter::Range needed_by(const Taps& taps) {
  const std::int64_t first = taps.ranges.front().first;
  return {first, taps.ranges.back().first + taps.ranges.back().count - first};
}

/// Pillow's NEAREST: the source index is a running sum of the scale, begun at half of it; summing
/// in double, as Pillow does, decides ties the same way.
std::vector<std::int64_t> nearest_indices(std::int64_t from, std::int64_t to, std::int64_t first,
                                          std::int64_t count) {
  constexpr std::int64_t kSummed = std::int64_t{1} << 28;  // a second of additions
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  double position = scale * 0.5;
  if (first > kSummed) {
    position += scale * static_cast<double>(first);
  } else {
    for (std::int64_t i = 0; i < first; ++i) position += scale;
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t& index : indices) {
    index = std::min(static_cast<std::int64_t>(position), from - 1);
    position += scale;
  }
  return indices;
}

}  // namespace

void resample(const Picture& picture, Size size, const Window& window, Interpolation interpolation,
              bool is_grey, std::uint8_t* rgb, std::int64_t stride) {
  const Size from{picture.height, picture.width};
  if (interpolation == Interpolation::nearest && from != size) {
    const auto rows = nearest_indices(from.height, size.height, window.top, window.height);
    const auto columns = nearest_indices(from.width, size.width, window.left, window.width);
    for (const std::int64_t y : rows) {
      const std::uint8_t* row = picture.rgb.data() + y * from.width * kChannels;
      std::uint8_t* out = rgb;
      for (const std::int64_t x : columns) {
        const std::uint8_t* pixel = row + x * kChannels;
        out =
            is_grey ? std::fill_n(out, kChannels, luma(pixel)) : std::copy_n(pixel, kChannels, out);
      }
      rgb += stride;
    }
    return;
  }
  std::optional<Taps> rows;
  std::optional<Taps> columns;
  if (from.height != size.height)
    rows = taps_of(from.height, size.height, window.top, window.height, interpolation);
  if (from.width != size.width)
    columns = taps_of(from.width, size.width, window.left, window.width, interpolation);
  const Filter::Range pixels =
      columns ? needed_by(*columns) : Filter::Range{window.left, window.width};
  const bool rows_first = !rows || !columns || !resamples_columns_first(from, size);
  Rows source(picture, pixels, columns && rows_first ? &*columns : nullptr, is_grey,
              rows ? rows->most() : 1);
  std::vector<const std::uint8_t*> weighed(static_cast<std::size_t>(rows ? rows->most() : 0));
  std::vector<std::uint8_t> between(rows_first ? 0
                                               : static_cast<std::size_t>(source.num_bytes()) + 16);
  for (std::int64_t i = 0; i < window.height; ++i, rgb += stride) {
    if (!rows) {
      std::copy_n(source.at(window.top + i), source.num_bytes(), rgb);
      continue;
    }
    const auto [first, count] = rows->ranges[static_cast<std::size_t>(i)];
    for (std::int64_t t = 0; t < count; ++t)
      weighed[static_cast<std::size_t>(t)] = source.at(first + t);
    std::uint8_t* out = rows_first ? rgb : between.data();
    weigh_rows(weighed.data(), count, rows->of(i), rows->precision, source.num_bytes(), out);
    if (!rows_first) resample_row(out, pixels.first, *columns, rgb);
  }
}

PixelBox needed_pixels(Size picture, Size size, const Window& window, Interpolation interpolation) {
  const auto along = [&](std::int64_t from, std::int64_t to, std::int64_t first,
                         std::int64_t count) -> Filter::Range {
    if (from == to) return {first, count};
    if (interpolation == Interpolation::nearest) return {0, from};
    const Filter filter(from, to, interpolation);
    const Filter::Range last = filter.range(first + count - 1);
    const std::int64_t begin = filter.range(first).first;
    return {begin, last.first + last.count - begin};
  };
  const Filter::Range rows = along(picture.height, size.height, window.top, window.height);
  const Filter::Range columns = along(picture.width, size.width, window.left, window.width);
  return {rows.first, columns.first, rows.count, columns.count};
}

Picture halved(const Picture& picture) {
  const int width = picture.width / 2;
  const int height = picture.height / 2;
  Picture half{width, height,
               std::vector<std::uint8_t>(static_cast<std::size_t>(width) *
                                         static_cast<std::size_t>(height) * 3)};
  const auto stride = static_cast<std::size_t>(picture.width) * 3;
  const std::size_t used = static_cast<std::size_t>(width) * 6;
  std::vector<std::uint16_t> sums(used);  // of two rows
  std::uint8_t* out = half.rgb.data();
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* upper = picture.rgb.data() + 2 * static_cast<std::size_t>(y) * stride;
    const std::uint8_t* lower = upper + stride;
    for (std::size_t i = 0; i < used; ++i)
      sums[i] = static_cast<std::uint16_t>(upper[i] + lower[i]);
    for (std::size_t i = 0; i < used; i += 6)
      for (std::size_t c = i; c < i + 3; ++c)
        *out++ = static_cast<std::uint8_t>((sums[c] + sums[c + 3] + 2) / 4);
  }
  return half;
}

}  // namespace hydrascope::image
