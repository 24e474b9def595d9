#include "viz/picture/encode.h"

#include "kernels/error.h"
#include "kernels/new_file.h"
#include "model/image/opencv/modules.h"
#include "viz/picture/encoders.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <span>
#include <string>

namespace hydrascope::viz {
namespace {

using namespace std::string_view_literals;

struct Format {
  ImageFormat format;
  std::string_view name;
  std::string_view extension;
  int longest_edge;         ///< that the format has room for
  std::string_view origin;  ///< a chunk or a comment that says which program made the picture
  int behind_origin;        ///< the bytes that end a file
};
constexpr std::array kFormats{
    Format{ImageFormat::png, "PNG", ".png", 1'000'000,  // the limit of libpng
           "\0\0\0\x13tEXtSoftware\0hydrascope\x8F\x05OS"sv, 12},
    Format{ImageFormat::jpeg, "JPEG", ".jpg", 65500,  // the limit of libjpeg
           "\xFF\xFE\0\x0Chydrascope"sv, 2},
};

const Format& properties(ImageFormat format) {
  return *std::ranges::find(kFormats, format, &Format::format);
}

}  // namespace

std::string lower_extension(std::string_view name) {
  const std::size_t dot = name.find_last_of("./");
  std::string extension(dot == name.npos || name[dot] == '/' ? "" : name.substr(dot));
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

std::optional<ImageFormat> find_image_format(std::string_view name) {
  const std::string extension = lower_extension(name);
  if (extension == ".jpeg") return ImageFormat::jpeg;
  const auto found = std::ranges::find(kFormats, extension, &Format::extension);
  return found == kFormats.end() ? std::nullopt : std::optional(found->format);
}

ImageFormat image_format(std::string_view name) {
  if (const auto found = find_image_format(name)) return *found;
  throw Error(ErrorCode::unsupported_format, "expected a name that ends in .png, .jpg or .jpeg",
              std::string(name));
}

std::string_view extension(ImageFormat format) { return properties(format).extension; }

bool fits(ImageFormat format, std::int64_t width, std::int64_t height) {
  return std::max(width, height) <= properties(format).longest_edge;
}

std::vector<std::byte> encode(const Canvas& canvas, ImageFormat format, int quality) {
  const Format& properties = viz::properties(format);
  if (canvas.width < 1 || canvas.height < 1 ||
      std::max(canvas.width, canvas.height) > properties.longest_edge)
    throw Error(ErrorCode::unsupported_format,
                std::string(properties.name) + " holds 1 to " +
                    std::to_string(properties.longest_edge) + " pixels an edge, found " +
                    std::to_string(canvas.width) + " x " + std::to_string(canvas.height));
  if (canvas.rgb.size() !=
      static_cast<std::size_t>(canvas.width) * static_cast<std::size_t>(canvas.height) * 3)
    throw Error(ErrorCode::internal, "a canvas has 3 bytes per pixel", "canvas");
  try {
    std::vector<std::byte> bytes;
#ifdef HYDRASCOPE_WITH_OPENCV
    if (opencv::why_no_picture_codecs().empty())
      bytes = encode_with_opencv(canvas, format, quality);
#endif
    if (bytes.empty()) bytes = encode_with_stb(canvas, format, quality);
    const auto origin = std::as_bytes(std::span(properties.origin));
    bytes.insert(bytes.end() - properties.behind_origin, origin.begin(), origin.end());
    return bytes;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "no memory to encode a picture of " +
                                              std::to_string(canvas.width) + " x " +
                                              std::to_string(canvas.height));
  }
}

void write_image(const std::filesystem::path& file, const Canvas& canvas) {
  const ImageFormat format = image_format(file.native());
  NewFile written(file);
  written.write(encode(canvas, format));
  written.commit();
}

std::jthread prepare_to_encode() {
#ifdef HYDRASCOPE_WITH_OPENCV
  return opencv::load_picture_codecs_ahead();
#else
  return {};
#endif
}

}  // namespace hydrascope::viz
