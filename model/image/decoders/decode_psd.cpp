// The merged picture of a Photoshop file (Adobe's specification), as Pillow reads it: a fourth
// channel of RGB is alpha where there are four, further channels are dropped. Samples of 16 bits,
// which Pillow does not read, keep the high byte.
#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

enum class PsdColours { grey, palette, rgb, cmyk };

[[noreturn]] void fail_psd() {
  throw Error(ErrorCode::decode_failed, "the file is truncated: rows of its picture are missing");
}

/// The rows of one channel, unpacked.
class PsdChannel {
 public:
  /// Rows are packed where `sizes`, the place of their sizes, is not 0.
  PsdChannel(const Encoded& encoded, std::size_t data, std::size_t sizes)
      : encoded_(&encoded), file_(encoded.bytes), at_(data), forgotten_(data), sizes_(sizes) {}

  void read_row(std::vector<std::uint8_t>& row) {
    encoded_->forget(forgotten_, at_);
    if (sizes_ == 0) {
      if (row.size() > file_.size() - std::min(at_, file_.size())) fail_psd();
      for (std::uint8_t& value : row) value = static_cast<std::uint8_t>(file_.u8(at_++));
      return;
    }
    const std::size_t end = at_ + file_.u16_big(sizes_);
    sizes_ += 2;
    if (end > file_.size()) fail_psd();
    std::size_t x = 0;
    while (x < row.size() && at_ < end) {
      const std::uint32_t code = file_.u8(at_++);
      if (code == 128) continue;
      const std::size_t count =
          std::min<std::size_t>(code < 128 ? code + 1 : 257 - code, row.size() - x);
      for (std::size_t i = 0; i < count; ++i)
        row[x++] = static_cast<std::uint8_t>(file_.u8(code < 128 ? at_ + i : at_));
      at_ += code < 128 ? code + 1 : 1;
    }
    if (x < row.size()) fail_psd();
    at_ = end;
  }

 private:
  const Encoded* encoded_;
  ByteView file_;
  std::size_t at_;
  std::size_t forgotten_;
  std::size_t sizes_;
};

PsdColours psd_colours(std::uint32_t mode, std::uint32_t bits) {
  constexpr std::uint32_t kBitmap = 0;
  const bool is_read = bits == 8 || (bits == 1 && mode == kBitmap) ||
                       (bits == 16 && (mode == 1 || mode == 3 || mode == 4));
  if (is_read) {
    switch (mode) {
      case kBitmap:
      case 1:
      case 7:
      case 8: return PsdColours::grey;
      case 2: return PsdColours::palette;
      case 3: return PsdColours::rgb;
      case 4: return PsdColours::cmyk;
      default: break;
    }
  }
  throw Error(
      ErrorCode::unsupported_format,
      "PSD in mode " + std::to_string(mode) + " with samples of " + std::to_string(bits) + " bits",
      {}, "convert it to PNG first");
}

}  // namespace

Picture decode_psd(const Encoded& encoded, const Header& header, const Colour& background) {
  const ByteView file(encoded.bytes);
  const std::uint32_t channels = file.u16_big(12);
  const std::uint32_t bits = file.u16_big(22);
  const PsdColours colours = psd_colours(file.u16_big(24), bits);
  std::uint32_t used = colours == PsdColours::rgb ? 3 : colours == PsdColours::cmyk ? 4 : 1;
  if (colours == PsdColours::rgb && channels == 4) used = 4;
  constexpr std::size_t kPaletteBytes = 768;
  const std::size_t palette = file.u32_big(26) == kPaletteBytes ? 30 : 0;
  std::size_t at = 26;
  for (int section = 0; section < 3; ++section) at += 4 + std::size_t{file.u32_big(at)};
  const std::uint32_t compression = file.u16_big(at);
  if (channels < used || at + 2 > file.size()) fail_psd();
  if (compression > 1)
    throw Error(ErrorCode::unsupported_format, "PSD with another compression than run lengths", {},
                "convert it to PNG first");
  const auto width = static_cast<std::size_t>(header.width);
  const auto height = static_cast<std::size_t>(header.height);
  const std::size_t row_bytes = (width * bits + 7) / 8;
  std::size_t sizes = at + 2;
  std::size_t data = compression == 0 ? at + 2 : sizes + 2 * height * channels;
  std::vector<PsdChannel> planes;
  for (std::uint32_t channel = 0; channel < used; ++channel) {
    planes.emplace_back(encoded, data, compression == 0 ? 0 : sizes);
    if (compression == 0) {
      data += row_bytes * height;
      continue;
    }
    // The sizes end with the file: bytes outside read as zero.
    for (std::size_t y = 0; y < height && sizes < file.size(); ++y, sizes += 2)
      data += file.u16_big(sizes);
  }
  Picture picture = reserve_picture(header.width, header.height);
  std::vector<std::uint8_t> row(row_bytes);
  std::vector<std::uint8_t> samples(width * used);
  std::vector<std::uint8_t> converted(width * 3);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::uint32_t channel = 0; channel < used; ++channel) {
      planes[channel].read_row(row);
      for (std::size_t x = 0; x < width; ++x) {
        const std::uint8_t value =
            bits == 1    ? static_cast<std::uint8_t>((row[x / 8] >> (7 - x % 8) & 1) * 255)
            : bits == 16 ? row[2 * x]
                         : row[x];
        samples[x * used + channel] = value;
      }
    }
    const bool is_converted = colours == PsdColours::cmyk || colours == PsdColours::palette;
    for (std::size_t x = 0; is_converted && x < width; ++x) {
      const std::uint8_t* pixel = samples.data() + x * used;
      for (std::size_t c = 0; c < 3; ++c) {
        const auto ink = [](std::uint8_t value) { return static_cast<std::uint8_t>(255 - value); };
        converted[x * 3 + c] =
            colours == PsdColours::cmyk ? cmyk_to_rgb(ink(pixel[c]), ink(pixel[3]))
            : palette != 0 ? static_cast<std::uint8_t>(file.u8(palette + c * 256 + pixel[0]))
                           : pixel[0];
      }
    }
    to_rgb8(is_converted ? converted.data() : samples.data(),
            {.channels = is_converted ? 3 : static_cast<int>(used)}, background, add_row(picture),
            width);
  }
  return picture;
}

}  // namespace hydrascope::image
