#include "model/image/decoders/tiff_directory.h"

namespace hydrascope::image {

TiffDirectory read_tiff_directory(ByteView file) {
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint32_t kLong = 4;
  TiffDirectory directory;
  const bool big = file.holds(0, "MM");
  if (!big && !file.holds(0, "II")) return directory;
  const auto u16 = [&](std::size_t at) { return big ? file.u16_big(at) : file.u16_little(at); };
  const auto u32 = [&](std::size_t at) { return big ? file.u32_big(at) : file.u32_little(at); };
  if (u16(2) != 42) return directory;
  const std::size_t offset = u32(4);
  const std::size_t entries = u16(offset);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = offset + 2 + 12 * i;
    if (entry + 12 > file.size()) break;
    const std::uint32_t type = u16(entry + 2);
    if ((type != kShort && type != kLong) || u32(entry + 4) != 1) continue;
    const std::uint32_t value = type == kShort ? u16(entry + 8) : u32(entry + 8);
    switch (u16(entry)) {
      case 0x0100: directory.width = value; break;
      case 0x0101: directory.height = value; break;
      case 0x0106: directory.photometric = value; break;
      case 0x0112:
        if (value >= 1 && value <= 8) directory.orientation = static_cast<int>(value);
        break;
      case 0x0115: directory.samples_per_pixel = value; break;
      default: break;
    }
  }
  return directory;
}

}  // namespace hydrascope::image
