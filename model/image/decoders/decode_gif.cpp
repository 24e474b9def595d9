#include "kernels/error.h"
#include "model/image/decoders/decoders.h"
#include "model/image/decoders/gif_frame.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hydrascope::image {
namespace {

[[noreturn]] void fail_gif(const std::string& why) { throw Error(ErrorCode::decode_failed, why); }

/// Decodes a GIF's blocks to numbers of colours (GIF89a, appendix F).
class GifPixels {
 public:
  GifPixels(ByteView file, std::size_t at) : file_(file), at_(at + 1), bits_(file.u8(at)) {
    if (bits_ < 1 || bits_ > 11) fail_gif("the GIF is damaged: it has no such code size");
    clear();
  }

  /// The place up to which the file was read.
  [[nodiscard]] std::size_t position() const { return at_; }

  void read_row(std::vector<std::uint8_t>& row) {
    for (std::uint8_t& pixel : row) {
      if (waiting_ == 0) decode();
      pixel = stack_[--waiting_];
    }
  }

 private:
  static constexpr std::uint32_t kMostCodes = 4096;
  static constexpr std::uint32_t kNone = kMostCodes;

  void clear() {
    next_ = (1U << bits_) + 2;
    code_bits_ = bits_ + 1;
    last_ = kNone;
  }

  std::uint32_t read_code() {
    while (buffered_ < code_bits_) {
      if (block_ == 0) {
        block_ = file_.u8(at_++);
        if (block_ == 0) fail_gif("the file is truncated: it ends inside the first picture");
      }
      if (at_ >= file_.size()) fail_gif("the file is truncated: it ends inside the first picture");
      buffer_ |= file_.u8(at_++) << buffered_;
      buffered_ += 8;
      --block_;
    }
    const std::uint32_t code = buffer_ & ((1U << code_bits_) - 1);
    buffer_ >>= code_bits_;
    buffered_ -= code_bits_;
    return code;
  }

  /// Leaves the pixels of the next code on the stack, the first on top.
  void decode() {
    const std::uint32_t clear_code = 1U << bits_;
    std::uint32_t code = read_code();
    while (code == clear_code) {
      clear();
      code = read_code();
    }
    if (code == clear_code + 1) fail_gif("the file is truncated: rows of its picture are missing");
    if (code > next_ || (code == next_ && last_ == kNone) || (last_ == kNone && code > clear_code))
      fail_gif("the GIF is damaged: it has no such code");
    const std::uint32_t whole = code;
    if (code == next_) {  // the last string and its first pixel again
      stack_[waiting_++] = first_;
      code = last_;
    }
    while (code >= clear_code) {
      stack_[waiting_++] = suffixes_[code];
      code = prefixes_[code];
    }
    first_ = static_cast<std::uint8_t>(code);
    stack_[waiting_++] = first_;
    if (last_ != kNone && next_ < kMostCodes) {
      prefixes_[next_] = static_cast<std::uint16_t>(last_);
      suffixes_[next_] = first_;
      ++next_;
      if (next_ == 1U << code_bits_ && code_bits_ < 12) ++code_bits_;
    }
    last_ = whole;
  }

  ByteView file_;
  std::size_t at_;
  std::uint32_t bits_;
  std::uint32_t code_bits_ = 0;
  std::uint32_t next_ = 0;      ///< the code that is defined next
  std::uint32_t last_ = kNone;  ///< the code before
  std::uint8_t first_ = 0;      ///< its first pixel
  std::uint32_t buffer_ = 0;
  std::uint32_t buffered_ = 0;
  std::uint32_t block_ = 0;  ///< bytes left in a block
  std::size_t waiting_ = 0;
  std::array<std::uint8_t, kMostCodes + 1> stack_{};
  std::array<std::uint8_t, kMostCodes> suffixes_{};
  std::array<std::uint16_t, kMostCodes> prefixes_{};
};

}  // namespace

std::optional<GifFrame> find_gif_frame(ByteView file) {
  const auto colours_of = [](std::uint32_t flags) {
    return (flags & 0x80) != 0 ? std::size_t{1} << ((flags & 7) + 1) : 0;
  };
  GifFrame frame;
  frame.num_colours = colours_of(file.u8(10));
  frame.palette = frame.num_colours > 0 ? 13 : 0;
  std::size_t at = 13 + 3 * frame.num_colours;
  while (at < file.size() && file.u8(at) != 0x3B) {
    if (file.u8(at) == 0x2C) {
      frame.left = file.u16_little(at + 1);
      frame.top = file.u16_little(at + 3);
      frame.width = file.u16_little(at + 5);
      frame.height = file.u16_little(at + 7);
      const std::uint32_t flags = file.u8(at + 9);
      frame.is_interlaced = (flags & 0x40) != 0;
      frame.data = at + 10;
      if (const std::size_t own = colours_of(flags); own > 0) {
        frame.num_colours = own;
        frame.palette = at + 10;
        frame.data += 3 * own;
      }
      return frame;
    }
    if (file.u8(at) != 0x21) {
      ++at;
      continue;
    }
    const bool is_control = file.u8(at + 1) == 0xF9 && file.u8(at + 2) >= 4;
    if (is_control && (file.u8(at + 3) & 1) != 0) frame.transparent = file.u8(at + 6);
    for (at += 2; at < file.size() && file.u8(at) != 0;) at += 1 + file.u8(at);
    ++at;
  }
  return std::nullopt;
}

Picture decode_gif(const Encoded& encoded, const Header& header, const Colour& background) {
  const ByteView file(encoded.bytes);
  const std::optional<GifFrame> frame = find_gif_frame(file);
  if (!frame) fail_gif("there is no picture in the file");
  // A pixel that no colour of the frame covers is transparent.
  std::array<Colour, 256> palette{};
  for (std::size_t i = 0; i < palette.size(); ++i) {
    if (frame->palette == 0) palette[i].fill(static_cast<std::uint8_t>(i));
    for (std::size_t c = 0; c < 3 && i < frame->num_colours; ++c)
      palette[i][c] = static_cast<std::uint8_t>(file.u8(frame->palette + 3 * i + c));
  }
  if (frame->transparent) palette[*frame->transparent] = background;
  GifPixels pixels(file, frame->data);
  std::vector<std::uint8_t> numbers(static_cast<std::size_t>(frame->width));
  const auto colour_row = [&](std::uint8_t* row) {
    pixels.read_row(numbers);
    for (const std::uint8_t number : numbers) row = std::copy_n(palette[number].begin(), 3, row);
  };
  const auto fill = [&](std::uint8_t* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) from = std::copy_n(background.begin(), 3, from);
  };
  const bool is_whole = frame->width == header.width && frame->height == header.height;
  Picture picture = reserve_picture(header.width, header.height);
  if (is_whole && !frame->is_interlaced) {
    for (std::int64_t y = 0; y < header.height; ++y) {
      encoded.forget_before(pixels.position());
      colour_row(add_row(picture));
    }
    return picture;
  }
  for (std::int64_t y = 0; y < header.height; ++y) fill(add_row(picture), header.width);
  struct Pass {
    std::int64_t first, step;
  };
  constexpr std::array<Pass, 4> kInterlaced{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  constexpr std::array<Pass, 1> kPlain{{{0, 1}}};
  for (const Pass& pass : frame->is_interlaced ? std::span<const Pass>(kInterlaced) : kPlain) {
    for (std::int64_t y = pass.first; y < frame->height; y += pass.step)
      colour_row(picture.rgb.data() + ((frame->top + y) * header.width + frame->left) * 3);
  }
  return picture;
}

}  // namespace hydrascope::image
