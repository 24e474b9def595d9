#include "model/image/picture_formats.h"

#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/pnm_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace hydrascope::image {
namespace {

using std::string_view_literals::operator""sv;
using Bytes = std::span<const std::byte>;

bool starts(Bytes bytes, std::string_view text, std::size_t at = 0) {
  return ByteView(bytes).holds(at, text);
}

/// Whether it is a file of boxes (ISO 14496-12) whose brand begins with `brand`.
bool has_brand(Bytes bytes, std::string_view brand) {
  return starts(bytes, "ftyp"sv, 4) && starts(bytes, brand, 8);
}

bool is_bmp(Bytes bytes) {
  constexpr std::array<std::uint32_t, 7> kHeaderSizes{12, 40, 52, 56, 64, 108, 124};
  return starts(bytes, "BM"sv) &&
         std::ranges::find(kHeaderSizes, ByteView(bytes).u32_little(14)) != kHeaderSizes.end();
}

bool is_tiff(Bytes bytes) { return starts(bytes, "II*\0"sv) || starts(bytes, "MM\0*"sv); }
bool is_big_tiff(Bytes bytes) { return starts(bytes, "II+\0"sv) || starts(bytes, "MM\0+"sv); }

/// Canon's, Fujifilm's, Olympus', Panasonic's and Sigma's; other raw files are TIFF to their last
/// byte and known by their names alone.
bool is_raw(Bytes bytes) {
  return (is_tiff(bytes) && starts(bytes, "CR"sv, 8)) || has_brand(bytes, "crx"sv) ||
         starts(bytes, "HEAPCCDR"sv, 6) || starts(bytes, "FUJIFILMCCD-RAW"sv) ||
         starts(bytes, "IIR"sv) || starts(bytes, "MMOR"sv) || starts(bytes, "IIU\0"sv) ||
         starts(bytes, "FOVb"sv);
}

bool is_svg(Bytes bytes) { return starts(bytes, "<svg"sv) || starts(bytes, "<!DOCTYPE svg"sv); }

/// Icons and cursors: type, number of entries, and a byte of zero in the first entry. TGA has zeros
/// for the number.
bool is_icon(Bytes bytes) {
  const ByteView view(bytes);
  constexpr std::uint32_t kMostEntries = 255;
  return (starts(bytes, "\0\0\1\0"sv) || starts(bytes, "\0\0\2\0"sv)) && view.u16_little(4) > 0 &&
         view.u16_little(4) <= kMostEntries && view.u8(9) == 0;
}

// A format comes before another one whose files begin the same way.
constexpr std::array kFormats{
    PictureFormat{"jpeg", "JPEG", ".jpg .jpeg .jpe .jfif .jfi .jif .pjpeg .pjp .mpo .jps",
                  Decoders::any, [](Bytes b) { return starts(b, "\xFF\xD8\xFF"sv); }},
    PictureFormat{"png", "PNG", ".png .apng", Decoders::any,
                  [](Bytes b) { return starts(b, "\x89PNG\r\n\x1A\n"sv); }},
    PictureFormat{"webp", "WebP", ".webp", Decoders::opencv,
                  [](Bytes b) { return starts(b, "RIFF"sv) && starts(b, "WEBP"sv, 8); }},
    PictureFormat{"raw", "camera raw",
                  ".cr2 .cr3 .crw .nef .nrw .arw .srf .sr2 .dng .raf .orf .rw2 .rwl .pef .srw .x3f "
                  ".3fr .fff .iiq .erf .mrw .kdc .dcr .mos .mef .gpr",
                  Decoders::none, is_raw},
    PictureFormat{"tiff", "TIFF", ".tif .tiff .btf .tf8", Decoders::any,
                  [](Bytes b) { return is_tiff(b) || is_big_tiff(b); }},
    PictureFormat{"bmp", "BMP", ".bmp .dib", Decoders::any, is_bmp},
    PictureFormat{"gif", "GIF", ".gif", Decoders::any,
                  [](Bytes b) { return starts(b, "GIF87a"sv) || starts(b, "GIF89a"sv); }},
    PictureFormat{"pnm", "PNM", ".pnm .ppm .pgm .pbm", Decoders::any,
                  [](Bytes b) { return read_pnm_header(ByteView(b)).has_value(); }},
    PictureFormat{
        "jpeg2000", "JPEG 2000", ".jp2 .j2k .j2c .jpc .jpf .jpx", Decoders::opencv,
        [](Bytes b) { return starts(b, "\0\0\0\x0CjP  "sv) || starts(b, "\xFF\x4F\xFF\x51"sv); }},
    PictureFormat{"psd", "PSD", ".psd", Decoders::any,
                  [](Bytes b) { return starts(b, "8BPS\0\1"sv); }},
    PictureFormat{"avif", "AVIF", ".avif .avifs", Decoders::none,
                  [](Bytes b) { return has_brand(b, "avi"sv); }},
    PictureFormat{"heif", "HEIF", ".heic .heif .heics .heifs .hif", Decoders::none,
                  [](Bytes b) {
                    return has_brand(b, "he"sv) || has_brand(b, "mif"sv) || has_brand(b, "msf"sv);
                  }},
    PictureFormat{"jpegxl", "JPEG XL", ".jxl", Decoders::none,
                  [](Bytes b) { return starts(b, "\xFF\x0A"sv) || starts(b, "\0\0\0\x0CJXL "sv); }},
    PictureFormat{"jpegxr", "JPEG XR", ".jxr .wdp .hdp", Decoders::none,
                  [](Bytes b) { return starts(b, "II\xBC"sv); }},
    PictureFormat{"psb", "PSB", ".psb", Decoders::none,
                  [](Bytes b) { return starts(b, "8BPS\0\2"sv); }},
    PictureFormat{"svg", "SVG", ".svg .svgz", Decoders::none, is_svg},
    PictureFormat{"exr", "OpenEXR", ".exr", Decoders::none,
                  [](Bytes b) { return starts(b, "\x76\x2F\x31\x01"sv); }},
    PictureFormat{"hdr", "Radiance HDR", ".hdr", Decoders::none,
                  [](Bytes b) { return starts(b, "#?RADIANCE"sv) || starts(b, "#?RGBE"sv); }},
    PictureFormat{"pfm", "PFM", ".pfm", Decoders::none,
                  [](Bytes b) { return starts(b, "PF\n"sv) || starts(b, "Pf\n"sv); }},
    PictureFormat{"pam", "PAM", ".pam", Decoders::none,
                  [](Bytes b) { return starts(b, "P7\n"sv); }},
    PictureFormat{"qoi", "QOI", ".qoi", Decoders::none,
                  [](Bytes b) { return starts(b, "qoif"sv); }},
    PictureFormat{"dds", "DDS", ".dds", Decoders::none,
                  [](Bytes b) { return starts(b, "DDS "sv); }},
    PictureFormat{"ico", "icon", ".ico .cur .icns", Decoders::none,
                  [](Bytes b) { return is_icon(b) || starts(b, "icns"sv); }},
    PictureFormat{"xcf", "XCF", ".xcf", Decoders::none,
                  [](Bytes b) { return starts(b, "gimp xcf"sv); }},
    PictureFormat{"sun", "Sun raster", ".ras", Decoders::none,
                  [](Bytes b) { return starts(b, "\x59\xA6\x6A\x95"sv); }},
    PictureFormat{"dicom", "DICOM", ".dcm .dicom", Decoders::none,
                  [](Bytes b) { return starts(b, "DICM"sv, 128); }},
    PictureFormat{"tga", "TGA", ".tga", Decoders::none, nullptr},
    PictureFormat{"pcx", "PCX", ".pcx", Decoders::none, nullptr},
    PictureFormat{"sgi", "SGI", ".sgi", Decoders::none,
                  [](Bytes b) { return starts(b, "\x01\xDA\0"sv) || starts(b, "\x01\xDA\1"sv); }},
    PictureFormat{"metafile", "metafile", ".emf .wmf .eps", Decoders::none, nullptr},
};

/// Containers and raw streams. `.gif` and its like are pictures.
constexpr std::string_view kVideoExtensions =
    ".mp4 .m4v .mp4v .mov .qt .3gp .3gpp .3g2 .f4v .mj2 .mkv .mk3d .webm .avi .divx .xvid "
    ".mpg .mpeg .mpe .mpv .m1v .m2v .m2p .vob .ts .mts .m2t .m2ts .tod .trp .flv .wmv .asf .wtv "
    ".ogv .ogm .ogx .rm .rmvb .mxf .gxf .nut .dv .ivf .y4m .swf .nsv .amv .h261 .h263 .h264 .264 "
    ".avc "
    ".h265 .265 .hevc .h266 .266 .vvc .vc1 .obu .mjpg .mjpeg .fli .flc .bik .smk";

/// Whether `extensions` contain the one of `file`, in either case.
bool has_one_of(std::string_view extensions, const std::filesystem::path& file) {
  std::string extension = file.extension().native();
  if (extension.size() < 2 || extension.find(' ') != std::string::npos) return false;
  std::ranges::transform(extension, extension.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return (std::string(extensions) + ' ').find(extension + ' ') != std::string::npos;
}

}  // namespace

constinit const std::span<const PictureFormat> picture_formats = kFormats;

const PictureFormat* format_of_bytes(std::span<const std::byte> bytes) {
  const auto found = std::ranges::find_if(kFormats, [&](const PictureFormat& format) {
    return format.begins != nullptr && format.begins(bytes);
  });
  return found == kFormats.end() ? nullptr : &*found;
}

bool is_named_as_video(const std::filesystem::path& file) {
  return has_one_of(kVideoExtensions, file);
}

const PictureFormat* format_of_name(const std::filesystem::path& file) {
  const auto found = std::ranges::find_if(
      kFormats, [&](const PictureFormat& format) { return has_one_of(format.extensions, file); });
  return found == kFormats.end() ? nullptr : &*found;
}

std::string readable_formats() {
  std::vector<std::string_view> titles;
  for (const PictureFormat& format : kFormats)
    if (format.decoders != Decoders::none) titles.push_back(format.title);
  std::string text;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    text += i == 0 ? "" : i + 1 == titles.size() ? " and " : ", ";
    text += titles[i];
  }
  return text;
}

}  // namespace hydrascope::image
