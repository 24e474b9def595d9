// stb_image, https://github.com/nothings/stb (public domain). The implementation is compiled here,
// with internal linkage so that another copy in the process cannot clash with it.
#include "kernels/error.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
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
// Zeroed: version 2.27 decodes by Huffman tables that a JPEG names and never defines, and random
// bytes there lead it outside its arrays.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(memory, size) std::realloc(memory, size)
#define STBI_FREE(memory) std::free(memory)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_ONLY_JPEG
#include <stb/stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace hydrascope::image {
namespace {

/// The code of stb's message: a lack of memory, a limit, an unread variant; everything else is
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

}  // namespace

Picture decode_with_stb(const Encoded& encoded) {
  int width = 0;
  int height = 0;
  int channels = 0;
  constexpr int kRgb = 3;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> rgb(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(encoded.bytes.data()),
                            static_cast<int>(encoded.bytes.size()), &width, &height, &channels,
                            kRgb),
      &stbi_image_free);
  if (rgb == nullptr) {
    const char* reason = stbi_failure_reason();
    const std::string text = reason != nullptr && *reason != '\0' ? reason : "damaged or truncated";
    throw Error(code_of(text), "stb_image cannot decode it: " + text);
  }
  Picture picture = make_picture(width, height);
  std::copy_n(rgb.get(), picture.rgb.size(), picture.rgb.data());
  return picture;
}

// The header carries its version in a comment only; Debian 12 ships this one, with which the tests
// ran.
std::string stb_name() { return "stb_image 2.27"; }

}  // namespace hydrascope::image
