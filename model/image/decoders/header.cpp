// Sizes and orientation out of the headers of the formats below; no decoder runs. Sources: ITU T.81
// annex B and JFIF, W3C PNG (third edition), RFC 9649 (WebP), TIFF 6.0, Exif 2.32, GIF89a, Netpbm's
// manual pages, ISO 15444-1 annexes A and I, Adobe's PSD specification.
#include "model/image/decode.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/pnm_header.h"
#include "model/image/decoders/tiff_directory.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace hydrascope::image {
namespace {

/// Exif blocks begin with "Exif\0\0" in JPEG, and sometimes (wrongly) in PNG and WebP.
int exif_orientation(ByteView block) {
  using std::string_view_literals::operator""sv;
  if (block.holds(0, "Exif\0\0"sv)) block = block.part(6, block.size());
  return read_tiff_directory(block).orientation;
}

void read_jpeg(ByteView file, Header& header) {
  bool has_exif = false;
  std::size_t at = 2;
  while (at + 4 <= file.size()) {
    if (file.u8(at) != 0xFF) {
      ++at;  // libjpeg skips stray bytes between segments, too
      continue;
    }
    const std::uint32_t marker = file.u8(at + 1);
    const bool stands_alone = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (marker == 0xFF || marker == 0x00 || stands_alone) {
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) return;  // start of scan, end of image
    const std::size_t length = file.u16_big(at + 2);
    if (length < 2) return;
    const bool is_frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame && header.width == 0) {
      header.height = file.u16_big(at + 5);
      header.width = file.u16_big(at + 7);
    }
    if (marker == 0xE1 && !has_exif && file.holds(at + 4, "Exif")) {
      has_exif = true;
      header.orientation = exif_orientation(file.part(at + 4, length - 2));
    }
    at += 2 + length;
  }
}

void read_png(ByteView file, Header& header) {
  if (!file.holds(12, "IHDR")) return;
  header.width = file.u32_big(16);
  header.height = file.u32_big(20);
  // The chunk may stand after the picture data; a chunk is at least 12 bytes, so this ends.
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = file.u32_big(at);
    if (file.holds(at + 4, "eXIf")) {
      header.orientation = exif_orientation(file.part(at + 8, length));
      return;
    }
    if (file.holds(at + 4, "IEND")) return;
    at += 12 + length;
  }
}

void read_webp(ByteView file, Header& header) {
  constexpr std::size_t kFirstChunk = 12;
  constexpr std::size_t kPayload = kFirstChunk + 8;
  if (file.holds(kFirstChunk, "VP8 ")) {
    if (!file.holds(kPayload + 3, "\x9D\x01\x2A")) return;
    header.width = file.u16_little(kPayload + 6) & 0x3FFF;
    header.height = file.u16_little(kPayload + 8) & 0x3FFF;
  } else if (file.holds(kFirstChunk, "VP8L")) {
    if (file.u8(kPayload) != 0x2F || file.size() < kPayload + 5) return;
    const std::uint32_t bits = file.u32_little(kPayload + 1);
    header.width = (bits & 0x3FFF) + 1;
    header.height = (bits >> 14 & 0x3FFF) + 1;
  } else if (file.holds(kFirstChunk, "VP8X")) {
    if (file.size() < kPayload + 10) return;
    header.width = std::int64_t{file.u24_little(kPayload + 4)} + 1;
    header.height = std::int64_t{file.u24_little(kPayload + 7)} + 1;
    for (std::size_t at = kFirstChunk; at + 8 <= file.size();) {
      const std::size_t length = file.u32_little(at + 4);
      if (file.holds(at, "EXIF")) {
        header.orientation = exif_orientation(file.part(at + 8, length));
        return;
      }
      at += 8 + length + length % 2;
    }
  }
}

void read_tiff(ByteView file, Header& header) {
  const TiffDirectory directory = read_tiff_directory(file);
  header.width = directory.width;
  header.height = directory.height;
  header.orientation = directory.orientation;
}

void read_bmp(ByteView file, Header& header) {
  if (file.size() < 26) return;
  if (file.u32_little(14) == 12) {  // OS/2 1.x: 16-bit sizes
    header.width = file.u16_little(18);
    header.height = file.u16_little(20);
    return;
  }
  header.width = static_cast<std::int32_t>(file.u32_little(18));
  const std::int64_t height = static_cast<std::int32_t>(file.u32_little(22));
  header.height = height < 0 ? -height : height;  // negative: rows run from top to bottom
}

void read_gif(ByteView file, Header& header) {
  header.width = file.u16_little(6);
  header.height = file.u16_little(8);
}

void read_psd(ByteView file, Header& header) {
  header.height = file.u32_big(14);
  header.width = file.u32_big(18);
}

/// SIZ marker segment: the reference grid less the offset of the picture on it.
void read_jpeg2000_codestream(ByteView file, Header& header) {
  header.width = std::int64_t{file.u32_big(8)} - file.u32_big(16);
  header.height = std::int64_t{file.u32_big(12)} - file.u32_big(20);
}

void read_jpeg2000(ByteView file, Header& header) {
  for (std::size_t at = 0; at + 8 <= file.size();) {
    const std::size_t length = file.u32_big(at);
    if (file.holds(at + 4, "jp2h")) {
      at += 8;  // the boxes inside follow directly
    } else if (file.holds(at + 4, "ihdr")) {
      header.height = file.u32_big(at + 8);
      header.width = file.u32_big(at + 12);
      return;
    } else if (length < 8) {
      return;
    } else {
      at += length;
    }
  }
}

bool is_bmp(ByteView file) {
  constexpr std::array<std::uint32_t, 7> kHeaderSizes{12, 40, 52, 56, 64, 108, 124};
  return file.holds(0, "BM") && std::find(kHeaderSizes.begin(), kHeaderSizes.end(),
                                          file.u32_little(14)) != kHeaderSizes.end();
}

bool is_iso_media(ByteView file, std::string_view brand) {
  return file.holds(4, "ftyp") && file.holds(8, brand);
}

}  // namespace

Header probe(std::span<const std::byte> bytes) {
  using std::string_view_literals::operator""sv;
  const ByteView file(bytes);
  Header header;
  if (file.holds(0, "\xFF\xD8\xFF")) {
    header.format = "jpeg";
    read_jpeg(file, header);
  } else if (file.holds(0, "\x89PNG\r\n\x1A\n")) {
    header.format = "png";
    read_png(file, header);
  } else if (file.holds(0, "RIFF") && file.holds(8, "WEBP")) {
    header.format = "webp";
    read_webp(file, header);
  } else if (file.holds(0, "II*\0"sv) || file.holds(0, "MM\0*"sv)) {
    header.format = "tiff";
    read_tiff(file, header);
  } else if (is_bmp(file)) {
    header.format = "bmp";
    read_bmp(file, header);
  } else if (file.holds(0, "GIF87a") || file.holds(0, "GIF89a")) {
    header.format = "gif";
    read_gif(file, header);
  } else if (const std::optional<PnmHeader> pnm = read_pnm_header(file)) {
    header.format = "pnm";
    header.width = pnm->width;
    header.height = pnm->height;
  } else if (file.holds(0, "8BPS\0\1"sv)) {
    header.format = "psd";
    read_psd(file, header);
  } else if (file.holds(0, "\0\0\0\x0CjP  "sv)) {
    header.format = "jpeg2000";
    read_jpeg2000(file, header);
  } else if (file.holds(0, "\xFF\x4F\xFF\x51")) {
    header.format = "jpeg2000";
    read_jpeg2000_codestream(file, header);
  } else if (is_iso_media(file, "avif") || is_iso_media(file, "avis")) {
    header.format = "avif";
  } else if (is_iso_media(file, "hei") || is_iso_media(file, "mif1") ||
             is_iso_media(file, "msf1")) {
    header.format = "heif";
  } else if (file.holds(0, "\xFF\x0A") || file.holds(0, "\0\0\0\x0CJXL "sv)) {
    header.format = "jpegxl";
  } else if (file.holds(0, "II+\0"sv) || file.holds(0, "MM\0+"sv)) {
    header.format = "bigtiff";
  }
  header.width = std::max<std::int64_t>(header.width, 0);
  header.height = std::max<std::int64_t>(header.height, 0);
  return header;
}

}  // namespace hydrascope::image
