#include "model/image/decoders/tiff_directory.h"

#include <array>
#include <limits>

namespace hydrascope::image {
namespace {

/// The numbers of a file, in its byte order and with offsets of its width.
struct TiffReader {
  ByteView file;
  bool is_big_endian = false;
  bool is_big_tiff = false;

  [[nodiscard]] std::uint32_t u16(std::size_t at) const {
    return is_big_endian ? file.u16_big(at) : file.u16_little(at);
  }
  [[nodiscard]] std::uint32_t u32(std::size_t at) const {
    return is_big_endian ? file.u32_big(at) : file.u32_little(at);
  }
  /// An offset beyond 32 bits lies outside any file that is read.
  [[nodiscard]] std::uint32_t u64(std::size_t at) const {
    const std::uint32_t low = u32(is_big_endian ? at + 4 : at);
    const std::uint32_t high = u32(is_big_endian ? at : at + 4);
    return high == 0 ? low : std::numeric_limits<std::uint32_t>::max();
  }
  [[nodiscard]] std::uint32_t word(std::size_t at) const { return is_big_tiff ? u64(at) : u32(at); }
  [[nodiscard]] std::size_t word_size() const { return is_big_tiff ? 8 : 4; }
};

/// Bytes of a value of each type, 0 where there is no such type.
std::size_t size_of_type(std::uint32_t type) {
  constexpr std::array<std::uint8_t, 19> kSizes{0, 1, 1, 2, 4, 8, 1, 1, 2, 4,
                                                8, 4, 8, 4, 0, 0, 8, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

struct TiffEntry {
  std::uint32_t type = 0;
  std::size_t count = 0;
  std::size_t at = 0;  ///< place of its values
};

constexpr std::uint32_t kTiffByte = 1;
constexpr std::uint32_t kTiffUndefined = 7;

/// At most `most` numbers; none if they are no whole numbers or lie outside the file.
std::vector<std::uint32_t> numbers_of(const TiffReader& reader, const TiffEntry& entry,
                                      std::size_t most) {
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint32_t kLong = 4;
  constexpr std::uint32_t kSignedShort = 8;
  constexpr std::uint32_t kSignedLong = 9;
  constexpr std::uint32_t kLong8 = 16;
  std::vector<std::uint32_t> numbers;
  if (entry.count > most) return numbers;
  const std::size_t size = size_of_type(entry.type);
  for (std::size_t i = 0; i < entry.count; ++i) {
    const std::size_t at = entry.at + i * size;
    switch (entry.type) {
      case kShort:
      case kSignedShort: numbers.push_back(reader.u16(at)); break;
      case kLong:
      case kSignedLong: numbers.push_back(reader.u32(at)); break;
      case kLong8: numbers.push_back(reader.u64(at)); break;
      default: return {};
    }
  }
  return numbers;
}

void take(const TiffReader& reader, std::uint32_t tag, const TiffEntry& entry,
          TiffDirectory& directory) {
  constexpr std::size_t kMostSamples = 64;
  constexpr std::size_t kMostColours = 3 * 256;
  constexpr std::size_t kMostPieces = std::size_t{1} << 20;
  const auto all = [&](std::vector<std::uint32_t>& values, std::size_t most) {
    if (std::vector<std::uint32_t> found = numbers_of(reader, entry, most); !found.empty())
      values = std::move(found);
  };
  const auto one = [&](auto& value) {
    if (const std::vector<std::uint32_t> found = numbers_of(reader, entry, 1); !found.empty())
      value = found.front();
  };
  switch (tag) {
    case 256: one(directory.width); break;
    case 257: one(directory.height); break;
    case 258: all(directory.bits_per_sample, kMostSamples); break;
    case 259: one(directory.compression); break;
    case 262: one(directory.photometric); break;
    case 274: {
      std::uint32_t value = 0;
      one(value);
      directory.has_orientation = true;
      directory.orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
      break;
    }
    case 273:
    case 324: all(directory.offsets, kMostPieces); break;
    case 277: one(directory.samples_per_pixel); break;
    case 278: one(directory.rows_per_strip); break;
    case 284: one(directory.planar_configuration); break;
    case 320: all(directory.colour_map, kMostColours); break;
    case 322: one(directory.tile_width); break;
    case 323: one(directory.tile_height); break;
    case 338: all(directory.extra_samples, kMostSamples); break;
    case 339: all(directory.sample_format, kMostSamples); break;
    case 530: directory.has_subsampling = true; break;
    case 700:
      if (entry.type == kTiffByte || entry.type == kTiffUndefined)
        directory.xmp = reader.file.part(entry.at, entry.count);
      break;
    default: break;
  }
}

}  // namespace

TiffDirectory read_tiff_directory(ByteView file) {
  constexpr std::uint32_t kTiff = 42;
  constexpr std::uint32_t kBigTiff = 43;
  TiffDirectory directory;
  TiffReader reader{file, file.holds(0, "MM")};
  if (!reader.is_big_endian && !file.holds(0, "II")) return directory;
  reader.is_big_tiff = reader.u16(2) == kBigTiff;
  directory.is_big_endian = reader.is_big_endian;
  if (reader.u16(2) != kTiff && !reader.is_big_tiff) return directory;
  const std::size_t word = reader.word_size();
  const std::size_t offset = reader.word(word);
  const std::size_t entries = reader.is_big_tiff ? reader.u64(offset) : reader.u16(offset);
  const std::size_t first = offset + (reader.is_big_tiff ? 8 : 2);
  const std::size_t entry_size = 4 + 2 * word;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = first + entry_size * i;
    if (at + entry_size > file.size()) break;
    const std::uint32_t type = reader.u16(at + 2);
    const std::size_t size = size_of_type(type);
    TiffEntry entry{type, reader.word(at + 4), at + 4 + word};
    if (size == 0 || entry.count == 0) continue;
    if (entry.count > word / size) entry.at = reader.word(entry.at);
    if (entry.at > file.size() || entry.count > (file.size() - entry.at) / size) continue;
    take(reader, reader.u16(at), entry, directory);
  }
  return directory;
}

}  // namespace hydrascope::image
