#include "model/image/several_pictures.h"

#include "model/image/file_bytes.h"

#include <cstdint>

namespace hydrascope::image {
namespace {

/// The place behind blocks of at most 255 bytes, the last of which is empty.
std::uint64_t behind_blocks(FileBytes& file, std::uint64_t at) {
  while (const std::uint64_t size = file.u8(at)) at += size + 1;
  return at + 1;
}

std::uint64_t colours_of(std::uint64_t flags) {
  return (flags & 0x80U) != 0 ? std::uint64_t{3} << ((flags & 7U) + 1) : 0;
}

bool gif_has_several(FileBytes& file) {
  constexpr std::uint64_t kExtension = 0x21;
  constexpr std::uint64_t kPicture = 0x2C;
  int pictures = 0;
  for (std::uint64_t at = 13 + colours_of(file.u8(10)); at < file.size();) {
    const std::uint64_t kind = file.u8(at);
    if (kind == kPicture) {
      if (++pictures == 2) return true;
      at = behind_blocks(file, at + 11 + colours_of(file.u8(at + 9)));
    } else if (kind == kExtension) {
      at = behind_blocks(file, at + 2);
    } else {
      return false;
    }
  }
  return false;
}

bool png_has_several(FileBytes& file) {
  for (std::uint64_t at = 8; at + 8 <= file.size(); at += file.big(at, 4) + 12) {
    const std::string name = file.text(at + 4, 4);
    if (name == "acTL") return file.big(at + 8, 4) > 1;
    if (name == "IDAT") return false;
  }
  return false;
}

bool webp_has_several(FileBytes& file) {
  int pictures = 0;
  for (std::uint64_t at = 12; at + 8 <= file.size();) {
    if (file.text(at, 4) == "ANMF" && ++pictures == 2) return true;
    const std::uint64_t size = file.little(at + 4, 4);
    at += 8 + size + size % 2;
  }
  return false;
}

bool tiff_has_several(FileBytes& file) {
  const bool is_little = file.u8(0) == 'I';
  const auto number = [&](std::uint64_t at, int bytes) {
    return is_little ? file.little(at, bytes) : file.big(at, bytes);
  };
  const bool is_big = number(2, 2) == 43;
  const int offset_bytes = is_big ? 8 : 4;
  const std::uint64_t count_bytes = is_big ? 8 : 2;
  const std::uint64_t entry_bytes = is_big ? 20 : 12;
  constexpr std::uint64_t kMostEntries = 4096;
  constexpr int kMostDirectories = 64;
  const auto next_of = [&](std::uint64_t at) {
    const std::uint64_t count = number(at, static_cast<int>(count_bytes));
    return count > kMostEntries ? 0 : number(at + count_bytes + count * entry_bytes, offset_bytes);
  };
  const auto is_page = [&](std::uint64_t at) {
    constexpr std::uint64_t kSubfileType = 254;
    constexpr std::uint64_t kThumbnailOrMask = 5;
    const std::uint64_t count = number(at, static_cast<int>(count_bytes));
    if (count == 0 || count > kMostEntries) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t entry = at + count_bytes + i * entry_bytes;
      if (number(entry, 2) != kSubfileType) continue;
      return (number(entry + (is_big ? 12 : 8), 4) & kThumbnailOrMask) == 0;
    }
    return true;
  };
  std::uint64_t at = number(is_big ? 8 : 4, offset_bytes);
  for (int i = 0; i < kMostDirectories && at != 0 && at < file.size(); ++i) {
    if (i > 0 && is_page(at)) return true;
    at = next_of(at);
  }
  return false;
}

}  // namespace

bool holds_several_pictures(std::istream& stream) {
  FileBytes file(stream);
  const std::string begin = file.text(0, 4);
  if (begin == "GIF8") return gif_has_several(file);
  if (begin == "\x89PNG") return png_has_several(file);
  if (begin == "RIFF" && file.text(8, 4) == "WEBP") return webp_has_several(file);
  if (begin.starts_with("II") || begin.starts_with("MM")) {
    const std::uint64_t version = begin[0] == 'I' ? file.little(2, 2) : file.big(2, 2);
    return (version == 42 || version == 43) && tiff_has_several(file);
  }
  return false;
}

}  // namespace hydrascope::image
