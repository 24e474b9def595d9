#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <cstring>
#include <string>

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
/// short for its table, so this function follows such a table too.
bool has_sound_huffman_tables(ByteView file, std::size_t at, std::size_t end) {
  while (at < end) {
    std::size_t codes = 0;
    for (std::size_t bits = 1; bits <= 16; ++bits) codes += file.u8(at + bits);
    if (codes > 256) return false;
    at += 17 + codes;
  }
  return true;
}

}  // namespace

// Every scan must be followed by a marker. One scan with all components is the whole picture, and
// Pillow takes it whatever follows; several scans must reach the end of the image (0xD9). Data
// behind the end are ignored. stb_image makes pictures without a scan, and without a table of
// steps.
std::string find_jpeg_damage(std::span<const std::byte> bytes) {
  const ByteView file(bytes);
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

}  // namespace hydrascope::image
