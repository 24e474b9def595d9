#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/crc32.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::image {
namespace {

/// The position of the next marker's 0xFF at or after `at` in entropy-coded data, where a 0xFF
/// data byte is followed by 0x00 and restart markers (0xD0..0xD7) belong to the data; `size()` when
/// the file ends first. ITU T.81, B.1.1.5.
std::size_t find_marker_behind_scan(ByteView file, std::size_t at) {
  while (at < file.size()) {
    const void* found = std::memchr(file.data() + at, 0xFF, file.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const std::byte*>(found) - file.data());
    const std::uint32_t marker = file.u8(at + 1);
    const bool is_fill = marker == 0xFF;
    const bool is_data = marker == 0x00 || (marker >= 0xD0 && marker <= 0xD7);
    if (at + 1 < file.size() && !is_fill && !is_data) return at;
    at += is_fill ? 1 : 2;
  }
  return file.size();
}

/// Whether the tables of the DHT segment [at, end) hold at most 256 codes each (T.81, B.2.4.2).
/// libjpeg refuses more; stb_image 2.27 writes past its array, and reads past a segment that is too
/// short for its table, which is why this does so, too.
bool has_sound_huffman_tables(ByteView file, std::size_t at, std::size_t end) {
  while (at < end) {
    std::size_t codes = 0;
    for (std::size_t bits = 1; bits <= 16; ++bits) codes += file.u8(at + bits);
    if (codes > 256) return false;
    at += 17 + codes;
  }
  return true;
}

/// Every scan must be followed by a marker. One scan that holds all components is the whole
/// picture, and Pillow takes it with nothing after it that makes sense; several scans must reach
/// the end of the image (0xD9). What follows that is of no interest. stb_image makes pictures
/// without a scan, and without a table of steps.
std::string find_jpeg_damage(ByteView file) {
  bool progressive = false;
  bool is_complete = false;
  bool has_steps = false;
  bool has_scan = false;
  std::uint32_t frame_components = 0;
  std::size_t at = 2;
  while (at + 1 < file.size()) {
    const std::uint32_t marker = file.u8(at + 1);
    if (file.u8(at) != 0xFF || marker == 0xFF || marker == 0x00) {
      ++at;
      continue;
    }
    if (marker == 0xD9) return has_scan ? "" : "there is no picture in the file";
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += 2;
      continue;
    }
    const std::size_t payload = at + 4;
    const std::size_t length = std::max<std::size_t>(file.u16_big(at + 2), 2);
    at += 2 + length;
    if (marker == 0xC4) {
      if (!has_sound_huffman_tables(file, payload, at)) {
        return "a Huffman table has more than 256 codes";
      }
    } else if (marker == 0xDB) {
      has_steps = true;
    } else if (marker == 0xDA) {
      if (!has_steps) return "the picture's data comes without a table of steps";
      has_scan = true;
      const std::uint32_t scan_components = file.u8(payload);
      at = find_marker_behind_scan(file, at);
      if (at >= file.size() && !is_complete)
        return "the file is truncated inside the picture's data";
      is_complete = is_complete || (!progressive && scan_components == frame_components);
    } else if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC8 && marker != 0xCC) {
      progressive = marker == 0xC2 || marker == 0xC6 || marker == 0xCA || marker == 0xCE;
      frame_components = file.u8(payload + 5);
    }
  }
  return is_complete ? "" : "the file is truncated: it ends before the end-of-image marker";
}

/// Moves past a chain of length-prefixed blocks; false when the file ends first.
bool skip_gif_blocks(ByteView file, std::size_t& at) {
  while (at < file.size()) {
    const std::uint32_t length = file.u8(at);
    at += 1 + length;
    if (length == 0) return true;
  }
  return false;
}

/// The first picture's blocks must end in a terminator; later frames are not read.
std::string find_gif_damage(ByteView file) {
  const auto colour_table_bytes = [](std::uint32_t flags) {
    return (flags & 0x80) != 0 ? std::size_t{3} << ((flags & 7) + 1) : 0;
  };
  const std::string truncated = "the file is truncated: it ends inside the first picture";
  std::size_t at = 13 + colour_table_bytes(file.u8(10));
  while (at < file.size()) {
    const std::uint32_t block = file.u8(at);
    if (block == 0x21) {  // extension: label, blocks
      at += 2;
      if (!skip_gif_blocks(file, at)) return truncated;
    } else if (block == 0x2C) {  // picture: descriptor, colours, code size, blocks
      at += 10 + colour_table_bytes(file.u8(at + 9)) + 1;
      return skip_gif_blocks(file, at) ? "" : truncated;
    } else if (block == 0x3B) {
      return "there is no picture in the file";
    } else {
      ++at;
    }
  }
  return truncated;
}

std::string find_bmp_damage(ByteView file, const Header& header) {
  const bool is_os2 = file.u32_little(14) == 12;
  const std::uint64_t bits = is_os2 ? file.u16_little(24) : file.u16_little(28);
  const std::uint32_t compression = is_os2 ? 0 : file.u32_little(30);
  constexpr std::uint32_t kUncompressed = 0;
  constexpr std::uint32_t kBitFields = 3;
  if (compression != kUncompressed && compression != kBitFields) return "";
  const std::uint64_t stride = (static_cast<std::uint64_t>(header.width) * bits + 31) / 32 * 4;
  const std::uint64_t needed = stride * static_cast<std::uint64_t>(header.height);
  const std::uint64_t offset = file.u32_little(10);
  if (offset <= file.size() && needed <= file.size() - offset) return "";
  return "the file is truncated: " + std::to_string(offset + needed) + " bytes expected, " +
         std::to_string(file.size()) + " found";
}

}  // namespace

std::string find_damage(std::span<const std::byte> bytes, const Header& header) {
  const ByteView file(bytes);
  if (header.format == "jpeg") return find_jpeg_damage(file);
  if (header.format == "gif") return find_gif_damage(file);
  if (header.format == "bmp") return find_bmp_damage(file, header);
  return "";
}

bool has_sound_png_checksums(std::span<const std::byte> bytes) {
  const ByteView file(bytes);
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = file.u32_big(at);
    if (length > file.size() - at - 12) return false;
    constexpr std::uint32_t kLowerCase = 0x20;
    const bool is_critical = (file.u8(at + 4) & kLowerCase) == 0;
    if (is_critical && crc32(bytes.subspan(at + 4, 4 + length)) != file.u32_big(at + 8 + length)) {
      return false;
    }
    if (file.holds(at + 4, "IEND")) return true;
    at += 12 + length;
  }
  return false;
}

std::optional<std::vector<std::byte>> restore_png_end(std::span<const std::byte> bytes) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kEnd = "\0\0\0\0IEND\xAE\x42\x60\x82"sv;
  const ByteView file(bytes);
  bool has_data = false;
  std::size_t at = 8;
  while (at + 12 <= file.size()) {
    const std::size_t length = file.u32_big(at);
    if (file.holds(at + 4, "IEND")) return std::nullopt;
    const bool is_data = file.holds(at + 4, "IDAT");
    if (length > file.size() - at - 12) {
      if (is_data) return std::nullopt;
      break;
    }
    has_data = has_data || is_data;
    at += 12 + length;
  }
  if (!has_data) return std::nullopt;
  std::vector<std::byte> restored(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  const auto* end = reinterpret_cast<const std::byte*>(kEnd.data());
  restored.insert(restored.end(), end, end + kEnd.size());
  return restored;
}

}  // namespace hydrascope::image
