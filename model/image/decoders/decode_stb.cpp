// stb_image, https://github.com/nothings/stb (public domain). The implementation is compiled here,
// with internal linkage so that another copy in the process cannot clash with it.
#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
// Zeroed: version 2.27 decodes by Huffman tables that a JPEG names and never defines, and what lies in their place
// leads it outside its arrays.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(memory, size) std::realloc(memory, size)
#define STBI_FREE(memory) std::free(memory)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_NO_TGA
#include <stb/stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace hydrascope::image {
namespace {

/// By stb's words: a lack of memory, a limit, a variant it does not read; everything else is
/// damage.
ErrorCode code_of(std::string_view reason) {
  const auto says = [&](std::string_view words) { return reason.find(words) != reason.npos; };
  if (says("outofmem")) return ErrorCode::out_of_memory;
  if (says("too large")) return ErrorCode::too_large;
  const bool is_unread_variant = says("unsupported") || says("unknown image type") ||
                                 says("only") || says("RLE") || says("wrong channel count") ||
                                 says("wrong color format") || says("monochrome");
  return is_unread_variant ? ErrorCode::unsupported_format : ErrorCode::decode_failed;
}

/// The fourth byte of a BMP's pixel is alpha only where a mask says so; stb takes it for alpha
/// always.
bool has_meaningless_alpha(std::span<const std::byte> bytes, const Header& header) {
  if (header.format != "bmp") return false;
  const ByteView file(bytes);
  constexpr std::uint32_t kBitFields = 3;
  const bool has_alpha_mask =
      file.u32_little(14) >= 56 && file.u32_little(30) == kBitFields && file.u32_little(66) != 0;
  return !has_alpha_mask;
}

}  // namespace

Picture decode_with_stb(std::span<const std::byte> bytes, const Header& header,
                        const Colour& background) {
  int width = 0;
  int height = 0;
  int channels = 0;
  if (header.format == "webp" || header.format == "tiff" || header.format == "jpeg2000") {
    throw Error(ErrorCode::unsupported_format,
                "stb_image, which decodes in this build, does not read " + header.format, {},
                "build with OpenCV, or convert it to JPEG or PNG");
  }
  if (header.format == "png" && !has_sound_png_checksums(bytes)) {
    throw Error(ErrorCode::decode_failed, "the PNG is damaged: a checksum does not fit");
  }
  const int wanted_channels = has_meaningless_alpha(bytes, header) ? 3 : 0;
  // Samples of 16 bits come as their high bytes.
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> samples(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                            static_cast<int>(bytes.size()), &width, &height, &channels,
                            wanted_channels),
      &stbi_image_free);
  if (samples == nullptr) {
    const char* reason = stbi_failure_reason();
    // A chunk with a name of zeros, which is what it sees after the end of a PNG, gives an empty
    // text.
    const bool has_reason = reason != nullptr && *reason != '\0';
    const std::string text = has_reason ? reason : "damaged or truncated";
    throw Error(code_of(text), "stb_image cannot decode it: " + text);
  }
  Picture picture = make_picture(width, height);
  const SampleLayout layout{.channels = wanted_channels != 0 ? wanted_channels : channels};
  to_rgb8(samples.get(), layout, background, picture.rgb.data(), picture.rgb.size() / 3);
  return picture;
}

// The header carries its version in a comment only; this is the one Debian 12 ships and the tests
// ran.
std::string stb_name() { return "stb_image 2.27"; }

}  // namespace hydrascope::image
