// The readers of pictures before and beside the decoders: headers, signs of damage, stills of
// WebP, and portable maps.
#include "model/image/decode.h"
#include "model/image/decoders/decoders.h"
#include "model/image/decoders/webp_still.h"
#include "tests/fuzz/fuzz.h"

namespace image = hydrascope::image;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

namespace {

void decode_portable_map(std::span<const std::byte> bytes, const image::Header& header) {
  constexpr std::int64_t kMostPixels = 1 << 16;  // each input takes its time
  if (header.width > kMostPixels || header.height > kMostPixels ||
      header.width * header.height > kMostPixels)
    return;
  gives_result([&] {
    const image::Picture picture = image::decode_pnm(bytes);
    require(picture.width == header.width && picture.height == header.height,
            "the picture has its header's size");
    require(picture.rgb.size() == static_cast<std::size_t>(header.width * header.height * 3),
            "every pixel is there");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes = std::as_bytes(std::span(data, size));
  const image::Header header = image::probe(bytes);
  require(header.width >= 0 && header.height >= 0, "sizes are not negative");
  require(header.orientation >= 1 && header.orientation <= 8, "orientations are Exif's eight");
  if (header.format.empty()) return 0;
  if (header.format == "jpeg")
    require(image::find_jpeg_damage(bytes).size() < 1000, "messages are short");
  if (header.format == "webp") {
    gives_result([&] {
      const auto frame = image::extract_first_webp_frame(bytes);
      require(!frame || frame->size() <= size + 64, "a frame is a part of its file");
    });
  }
  if (header.format == "pnm") decode_portable_map(bytes, header);
  return 0;
}
