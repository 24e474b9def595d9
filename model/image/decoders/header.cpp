// Sizes and orientation out of the headers of the formats below; no decoder runs. Sources: ITU T.81
// annex B and JFIF, W3C PNG (third edition), RFC 9649 (WebP), TIFF 6.0, Exif 2.32, GIF89a, Netpbm's
// manual pages, ISO 15444-1 annexes A and I, Adobe's PSD specification.
#include "model/image/decode.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/gif_frame.h"
#include "model/image/decoders/orientation.h"
#include "model/image/decoders/pnm_header.h"
#include "model/image/decoders/tiff_directory.h"
#include "model/image/picture_formats.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace hydrascope::image {
namespace {

using std::string_view_literals::operator""sv;

void read_jpeg_segments(ByteView file, Header& header, std::vector<std::byte>& exif,
                        std::optional<ByteView>& xmp) {
  constexpr std::string_view kExif = "Exif\0\0"sv;
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
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
    const ByteView segment = file.part(at + 4, length - 2);
    if (marker == 0xE1 && segment.holds(0, kExif)) {
      // A block may go on in segments of its own.
      exif.insert(exif.end(), segment.data() + kExif.size(), segment.data() + segment.size());
    } else if (marker == 0xE1 && segment.holds(0, kXmp)) {
      xmp = segment.part(kXmp.size(), segment.size());
    }
    at += 2 + length;
  }
}

void read_jpeg(ByteView file, Header& header) {
  std::vector<std::byte> exif;
  std::optional<ByteView> xmp;
  read_jpeg_segments(file, header, exif, xmp);
  std::optional<int> orientation = exif_orientation(ByteView(exif));
  if (!orientation && xmp) orientation = xmp_orientation(*xmp);
  header.orientation = orientation.value_or(1);
}

void read_png(ByteView file, Header& header) {
  if (!file.holds(12, "IHDR")) return;
  header.width = file.u32_big(16);
  header.height = file.u32_big(20);
  header.orientation = png_orientation(file);
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
    constexpr std::uint32_t kHasExif = 0x08;
    constexpr std::uint32_t kHasXmp = 0x04;
    const std::uint32_t flags = file.u8(kPayload);
    std::optional<ByteView> exif;
    std::optional<ByteView> xmp;
    for (std::size_t at = kFirstChunk; at + 8 <= file.size();) {
      const std::size_t length = file.u32_little(at + 4);
      const ByteView data = file.part(at + 8, length);
      if ((flags & kHasExif) != 0 && !exif && file.holds(at, "EXIF")) exif = data;
      if ((flags & kHasXmp) != 0 && !xmp && file.holds(at, "XMP ")) xmp = data;
      at += 8 + length + length % 2;
    }
    std::optional<int> orientation = exif ? exif_orientation(*exif) : std::nullopt;
    if (!orientation && xmp) orientation = xmp_orientation(*xmp);
    header.orientation = orientation.value_or(1);
  }
}

void read_tiff(ByteView file, Header& header) {
  const TiffDirectory directory = read_tiff_directory(file);
  header.width = directory.width;
  header.height = directory.height;
  header.orientation = directory.has_orientation ? directory.orientation
                                                 : xmp_orientation(directory.xmp).value_or(1);
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
  // As in Pillow the screen grows to a larger first picture.
  if (const std::optional<GifFrame> frame = find_gif_frame(file)) {
    header.width = std::max(header.width, frame->left + frame->width);
    header.height = std::max(header.height, frame->top + frame->height);
  }
}

void read_psd(ByteView file, Header& header) {
  header.height = file.u32_big(14);
  header.width = file.u32_big(18);
}

void read_pnm(ByteView file, Header& header) {
  const std::optional<PnmHeader> pnm = read_pnm_header(file);
  if (!pnm) return;
  header.width = pnm->width;
  header.height = pnm->height;
}

/// SIZ marker segment: the reference grid less the offset of the picture on it.
void read_jpeg2000_codestream(ByteView file, Header& header) {
  header.width = std::int64_t{file.u32_big(8)} - file.u32_big(16);
  header.height = std::int64_t{file.u32_big(12)} - file.u32_big(20);
}

void read_jpeg2000(ByteView file, Header& header) {
  if (file.u8(0) == 0xFF) return read_jpeg2000_codestream(file, header);
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

/// How each readable format says its size.
struct HeaderReader {
  std::string_view format;
  void (*read)(ByteView file, Header& header);
};
constexpr std::array kHeaderReaders{
    HeaderReader{"jpeg", read_jpeg},        HeaderReader{"png", read_png},
    HeaderReader{"webp", read_webp},        HeaderReader{"tiff", read_tiff},
    HeaderReader{"bmp", read_bmp},          HeaderReader{"gif", read_gif},
    HeaderReader{"pnm", read_pnm},          HeaderReader{"psd", read_psd},
    HeaderReader{"jpeg2000", read_jpeg2000}};

}  // namespace

Header probe(std::span<const std::byte> bytes) {
  const PictureFormat* format = format_of_bytes(bytes);
  if (format == nullptr) return {};
  Header header;
  header.format = format->name;
  const auto* reader = std::ranges::find(kHeaderReaders, format->name, &HeaderReader::format);
  if (reader != kHeaderReaders.end()) reader->read(ByteView(bytes), header);
  header.width = std::max<std::int64_t>(header.width, 0);
  header.height = std::max<std::int64_t>(header.height, 0);
  return header;
}

}  // namespace hydrascope::image
