// Windows and OS/2 bitmaps as Pillow reads them (BmpImagePlugin): the fourth byte of a pixel is alpha
// only where a mask says so.
#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"
#include "model/image/upright.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

constexpr std::uint32_t kBmpRuns8 = 1;
constexpr std::uint32_t kBmpRuns4 = 2;
constexpr std::uint32_t kBmpBitFields = 3;

struct BmpHeader {
  std::size_t size = 0;
  std::size_t width = 0;
  std::size_t height = 0;
  bool is_top_down = false;
  std::uint32_t bits = 0;
  std::uint32_t compression = 0;
  std::size_t num_colours = 0;
  std::size_t colour_bytes = 4;
  std::size_t data = 0;                  ///< where the pixels begin
  std::array<std::uint32_t, 4> masks{};  ///< red, green, blue, alpha; alpha 0: none
};

[[noreturn]] void refuse_bmp(const std::string& what) {
  throw Error(ErrorCode::unsupported_format, "BMP " + what, {}, "convert it to PNG first");
}

BmpHeader read_bmp_header(ByteView file, const Header& header) {
  BmpHeader bmp;
  bmp.size = file.u32_little(14);
  bmp.width = static_cast<std::size_t>(header.width);
  bmp.height = static_cast<std::size_t>(header.height);
  const bool is_old = bmp.size == 12;
  bmp.bits = file.u16_little(is_old ? 24 : 28);
  constexpr std::array<std::uint32_t, 6> kDepths{1, 4, 8, 16, 24, 32};
  if (std::ranges::find(kDepths, bmp.bits) == kDepths.end())
    throw Error(ErrorCode::decode_failed,
                "the BMP is damaged: pixels of " + std::to_string(bmp.bits) + " bits");
  bmp.colour_bytes = is_old ? 3 : 4;
  if (!is_old) {
    bmp.is_top_down = (file.u32_little(22) >> 31) != 0;
    bmp.compression = file.u32_little(30);
    bmp.num_colours = file.u32_little(46);
  }
  if (bmp.num_colours == 0 && bmp.bits <= 8) bmp.num_colours = std::size_t{1} << bmp.bits;
  const std::size_t behind = 14 + bmp.size;
  const std::size_t table = bmp.bits <= 8 ? bmp.colour_bytes * bmp.num_colours : 0;
  bmp.data = file.u32_little(10);
  if (bmp.data == 0 || (bmp.data == behind && bmp.bits <= 8)) bmp.data = behind + table;
  if (bmp.compression == kBmpBitFields) {
    for (std::size_t i = 0; i < 3; ++i) bmp.masks[i] = file.u32_little(54 + 4 * i);
    bmp.masks[3] = bmp.size >= 56 ? file.u32_little(66) : 0;
  }
  return bmp;
}

/// Colours by their number; numbers outside the table are black.
std::array<Colour, 256> bmp_palette(ByteView file, const BmpHeader& bmp) {
  std::array<Colour, 256> palette{};
  for (std::size_t i = 0; i < std::min<std::size_t>(bmp.num_colours, 256); ++i) {
    const std::size_t at = 14 + bmp.size + i * bmp.colour_bytes;
    for (std::size_t c = 0; c < 3; ++c)
      palette[i][c] = static_cast<std::uint8_t>(file.u8(at + 2 - c));
  }
  return palette;
}

/// Numbers of colours out of runs: all rows, in the order of the file. Ends early with the data.
std::vector<std::uint8_t> bmp_runs(ByteView file, const BmpHeader& bmp) {
  const std::size_t wanted = bmp.width * bmp.height;
  const bool has_nibbles = bmp.compression == kBmpRuns4;
  std::vector<std::uint8_t> pixels;
  pixels.reserve(wanted);
  const auto add = [&](std::size_t count, const auto& value_of) {
    for (std::size_t i = 0; i < count && pixels.size() < wanted; ++i)
      pixels.push_back(static_cast<std::uint8_t>(value_of(i)));
  };
  const auto nothing = [](std::size_t) { return 0; };
  std::size_t x = 0;
  std::size_t at = bmp.data;
  while (pixels.size() < wanted && at + 2 <= file.size()) {
    const std::uint32_t count = file.u8(at);
    const std::uint32_t value = file.u8(at + 1);
    at += 2;
    if (count > 0) {
      const std::size_t fitting = std::min<std::size_t>(count, bmp.width - std::min(x, bmp.width));
      add(fitting, [&](std::size_t i) {
        return has_nibbles ? (i % 2 == 0 ? value >> 4 : value & 15) : value;
      });
      x += fitting;
    } else if (value == 0) {
      add((bmp.width - pixels.size() % bmp.width) % bmp.width, nothing);
      x = 0;
    } else if (value == 1) {
      break;
    } else if (value == 2) {
      add(file.u8(at) + file.u8(at + 1) * bmp.width, nothing);
      at += 2;
      x = pixels.size() % bmp.width;
    } else {
      add(value, [&](std::size_t i) {
        if (!has_nibbles) return file.u8(at + i);
        return i % 2 == 0 ? file.u8(at + i / 2) >> 4 : file.u8(at + i / 2) & 15;
      });
      at += has_nibbles ? (value + 1) / 2 : value;
      at += at % 2;
      x += value;
    }
  }
  return pixels;
}

/// The byte of a pixel that a mask covers; refuses others.
std::size_t byte_of_mask(std::uint32_t mask) {
  constexpr std::array<std::uint32_t, 4> kBytes{0xFF, 0xFF00, 0xFF0000, 0xFF000000};
  const auto* const found = std::ranges::find(kBytes, mask);
  if (found == kBytes.end()) refuse_bmp("with colours of other than eight bits");
  return static_cast<std::size_t>(found - kBytes.begin());
}

/// The places of the samples of a pixel of 24 or 32 bits.
struct BmpBytes {
  std::array<std::size_t, 3> colours{2, 1, 0};
  std::optional<std::size_t> alpha;
};

BmpBytes bytes_of_pixel(const BmpHeader& bmp) {
  BmpBytes bytes;
  if (bmp.compression != kBmpBitFields) return bytes;
  const bool says_nothing = std::ranges::all_of(bmp.masks, [](auto mask) { return mask == 0; });
  if (says_nothing) {
    bytes.alpha = 3;
    return bytes;
  }
  for (std::size_t i = 0; i < 3; ++i) bytes.colours[i] = byte_of_mask(bmp.masks[i]);
  if (bmp.masks[3] != 0) bytes.alpha = byte_of_mask(bmp.masks[3]);
  if (bmp.bits == 24 && std::ranges::max(bytes.colours) > 2)
    refuse_bmp("with masks beyond its pixels");
  return bytes;
}

/// Rows of the file -> RGB.
class BmpColouring {
 public:
  BmpColouring(ByteView file, const BmpHeader& bmp, const Colour& background)
      : bmp_(bmp), background_(background), palette_(bmp_palette(file, bmp)) {
    if (bmp.bits == 16) {
      has_six_greens_ = bmp.compression == kBmpBitFields && bmp.masks[0] == 0xF800;
      const std::array<std::uint32_t, 3> six{0xF800, 0x7E0, 0x1F};
      const std::array<std::uint32_t, 3> five{0x7C00, 0x3E0, 0x1F};
      const auto& known = has_six_greens_ ? six : five;
      if (bmp.compression == kBmpBitFields &&
          !std::equal(known.begin(), known.end(), bmp.masks.begin()))
        refuse_bmp("with colours of other than five or six bits");
    } else if (bmp.bits > 16) {
      bytes_ = bytes_of_pixel(bmp);
    }
  }

  void colour(const std::uint8_t* row, std::uint8_t* rgb) {
    if (bmp_.bits <= 8) {
      colour_numbers(row, bmp_.bits, rgb);
    } else if (bmp_.bits == 16) {
      for (std::size_t x = 0; x < bmp_.width; ++x, row += 2) {
        const std::uint32_t pixel = row[0] | static_cast<std::uint32_t>(row[1]) << 8;
        const std::uint32_t greens = has_six_greens_ ? 63 : 31;
        *rgb++ = static_cast<std::uint8_t>((pixel >> (has_six_greens_ ? 11 : 10) & 31) * 255 / 31);
        *rgb++ = static_cast<std::uint8_t>((pixel >> 5 & greens) * 255 / greens);
        *rgb++ = static_cast<std::uint8_t>((pixel & 31) * 255 / 31);
      }
    } else {
      const std::size_t channels = bytes_.alpha ? 4 : 3;
      samples_.resize(bmp_.width * channels);
      std::uint8_t* out = samples_.data();
      for (std::size_t x = 0; x < bmp_.width; ++x, row += bmp_.bits / 8) {
        for (const std::size_t byte : bytes_.colours) *out++ = row[byte];
        if (bytes_.alpha) *out++ = row[*bytes_.alpha];
      }
      to_rgb8(samples_.data(), {.channels = static_cast<int>(channels)}, background_, rgb,
              bmp_.width);
    }
  }
  void colour_numbers(const std::uint8_t* row, std::uint32_t bits, std::uint8_t* rgb) const {
    for (std::size_t x = 0; x < bmp_.width; ++x) {
      const std::size_t bit = x * bits;
      const std::size_t number = row[bit / 8] >> (8 - bits - bit % 8) & ((1U << bits) - 1);
      rgb = std::copy_n(palette_[number].begin(), 3, rgb);
    }
  }

 private:
  const BmpHeader& bmp_;
  const Colour& background_;
  std::array<Colour, 256> palette_;
  bool has_six_greens_ = false;
  BmpBytes bytes_;
  std::vector<std::uint8_t> samples_;
};

}  // namespace

Picture decode_bmp(const Encoded& encoded, const Header& header, const Colour& background) {
  const ByteView file(encoded.bytes);
  const BmpHeader bmp = read_bmp_header(file, header);
  const bool has_runs = bmp.compression == kBmpRuns8 || bmp.compression == kBmpRuns4;
  if (bmp.compression > kBmpBitFields) refuse_bmp("with another picture in it");
  if (bmp.compression == kBmpBitFields ? bmp.bits < 16 : has_runs && bmp.bits > 8)
    throw Error(ErrorCode::decode_failed, "the BMP is damaged: its compression has other pixels");
  BmpColouring colouring(file, bmp, background);
  Picture picture = reserve_picture(header.width, header.height);
  if (has_runs) {
    const std::vector<std::uint8_t> numbers = bmp_runs(file, bmp);
    if (numbers.size() < bmp.width * bmp.height)
      throw Error(ErrorCode::decode_failed, "the file is truncated: rows are missing");
    for (std::size_t y = 0; y < bmp.height; ++y) {
      colouring.colour_numbers(numbers.data() + y * bmp.width, 8, add_row(picture));
      forget_pages(numbers.data() + y * bmp.width, bmp.width);
    }
  } else {
    const std::size_t row_bytes = (bmp.width * bmp.bits + 7) / 8;
    const std::size_t stride = (bmp.width * bmp.bits + 31) / 32 * 4;
    const std::size_t needed = bmp.data + stride * (bmp.height - 1) + row_bytes;
    if (needed > file.size())
      throw Error(ErrorCode::decode_failed, "the file is truncated: " + std::to_string(needed) +
                                                " bytes expected, " + std::to_string(file.size()) +
                                                " found");
    const auto* rows = reinterpret_cast<const std::uint8_t*>(file.data()) + bmp.data;
    for (std::size_t y = 0; y < bmp.height; ++y) {
      encoded.forget_before(bmp.data + y * stride);
      colouring.colour(rows + y * stride, add_row(picture));
    }
  }
  constexpr int kFlipped = 4;
  if (!bmp.is_top_down) make_upright(picture, kFlipped);
  return picture;
}

}  // namespace hydrascope::image
