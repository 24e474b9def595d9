// Portable bitmaps, greymaps and pixmaps (netpbm's pbm(5), pgm(5), ppm(5)). Decoded here because
// neither decoder reads all of them: stb_image has no bitmaps and no text forms and takes a short
// file for a complete one; OpenCV ignores a maximum other than 255.
#include "kernels/error.h"
#include "model/image/decoders/decoders.h"
#include "model/image/decoders/pnm_header.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace hydrascope::image {
namespace {

bool is_blank(std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(std::uint32_t c) { return c >= '0' && c <= '9'; }

void skip_blanks(ByteView file, std::size_t& at) {
  while (at < file.size()) {
    if (file.u8(at) == '#') {
      while (at < file.size() && file.u8(at) != '\n') ++at;
    } else if (is_blank(file.u8(at))) {
      ++at;
    } else {
      return;
    }
  }
}

Error truncated(const PnmHeader& header) {
  return Error(ErrorCode::decode_failed, "the file is truncated: samples of " +
                                             std::to_string(header.width) + "x" +
                                             std::to_string(header.height) + " pixels are missing");
}

/// Pillow's `round(value / max * 255)`, half to even, for a PNM of any maximum.
std::uint8_t scale(std::uint32_t value, std::uint32_t max) {
  if (max == 255) return static_cast<std::uint8_t>(std::min(value, max));
  const double scaled = std::nearbyint(static_cast<double>(value) / max * 255);
  return static_cast<std::uint8_t>(std::min(scaled, 255.0));
}

/// One sample after the other, whatever the file stores them as; white is `header.max_value`.
class SampleReader {
 public:
  SampleReader(ByteView file, const PnmHeader& header)
      : file_(file), header_(header), at_(header.data_offset) {}

  std::uint32_t next() {
    if (header_.kind == 1) return next_text_bit();
    if (header_.kind == 4) return next_bit();
    if (header_.is_text()) {
      const std::optional<std::uint32_t> number = read_pnm_number(file_, at_);
      if (!number) throw truncated(header_);
      return *number;
    }
    const std::size_t width = header_.max_value > 255 ? 2 : 1;
    const std::uint32_t value = width == 2 ? file_.u16_big(at_) : file_.u8(at_);
    at_ += width;
    return value;
  }

  [[nodiscard]] std::size_t position() const { return at_; }

  /// Rows of packed bits begin on a byte.
  void end_row() {
    if (bit_ != 0) ++at_;
    bit_ = 0;
  }

 private:
  /// Bits need no blanks between them; 1 is black.
  std::uint32_t next_text_bit() {
    skip_blanks(file_, at_);
    const std::uint32_t digit = file_.u8(at_++);
    if (digit != '0' && digit != '1') throw truncated(header_);
    return digit == '0' ? 1 : 0;
  }

  std::uint32_t next_bit() {
    const std::uint32_t value = file_.u8(at_) >> (7 - bit_) & 1;
    bit_ = (bit_ + 1) % 8;
    if (bit_ == 0) ++at_;
    return 1 - value;
  }

  ByteView file_;
  const PnmHeader& header_;
  std::size_t at_;
  int bit_ = 0;
};

/// Whether a byte form holds all its samples; text forms notice while they are read.
bool is_complete(ByteView file, const PnmHeader& header) {
  if (header.is_text()) return true;
  const std::uint64_t row = header.is_bitmap() ? (static_cast<std::uint64_t>(header.width) + 7) / 8
                                               : static_cast<std::uint64_t>(header.width) *
                                                     static_cast<std::uint64_t>(header.channels()) *
                                                     (header.max_value > 255 ? 2 : 1);
  return row * static_cast<std::uint64_t>(header.height) <= file.size() - header.data_offset;
}

}  // namespace

std::optional<std::uint32_t> read_pnm_number(ByteView file, std::size_t& at) {
  skip_blanks(file, at);
  if (!is_digit(file.u8(at))) return std::nullopt;
  std::uint64_t value = 0;
  for (; is_digit(file.u8(at)); ++at) {
    value = value * 10 + (file.u8(at) - '0');
    if (value > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  }
  return static_cast<std::uint32_t>(value);
}

std::optional<PnmHeader> read_pnm_header(ByteView file) {
  if (file.u8(0) != 'P' || file.u8(1) < '1' || file.u8(1) > '6') return std::nullopt;
  if (!is_blank(file.u8(2)) && file.u8(2) != '#') return std::nullopt;
  PnmHeader header;
  header.kind = static_cast<int>(file.u8(1) - '0');
  std::size_t at = 2;
  const std::optional<std::uint32_t> width = read_pnm_number(file, at);
  const std::optional<std::uint32_t> height = width ? read_pnm_number(file, at) : std::nullopt;
  if (!height) return std::nullopt;
  header.width = *width;
  header.height = *height;
  if (!header.is_bitmap()) {
    const std::optional<std::uint32_t> max_value = read_pnm_number(file, at);
    if (!max_value || *max_value == 0 || *max_value > 65535) return std::nullopt;
    header.max_value = *max_value;
  }
  if (!is_blank(file.u8(at))) return std::nullopt;  // exactly one blank, then the samples
  header.data_offset = at + 1;
  return header;
}

Picture decode_pnm(const Encoded& encoded) {
  const ByteView file(encoded.bytes);
  const std::optional<PnmHeader> header = read_pnm_header(file);
  if (!header) throw Error(ErrorCode::decode_failed, "the PNM header is damaged");
  if (!is_complete(file, *header)) throw truncated(*header);
  Picture picture = reserve_picture(header->width, header->height);
  SampleReader samples(file, *header);
  for (int y = 0; y < picture.height; ++y) {
    encoded.forget_before(samples.position());
    std::uint8_t* out = add_row(picture);
    for (int x = 0; x < picture.width; ++x, out += 3) {
      out[0] = scale(samples.next(), header->max_value);
      const bool is_colour = header->channels() == 3;
      out[1] = is_colour ? scale(samples.next(), header->max_value) : out[0];
      out[2] = is_colour ? scale(samples.next(), header->max_value) : out[0];
    }
    samples.end_row();
  }
  return picture;
}

}  // namespace hydrascope::image
