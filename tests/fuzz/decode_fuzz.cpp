// Pictures from bytes to pixels, by the decoders of a build without OpenCV.
#include "model/image/decode.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace image = hydrascope::image;
  const std::span bytes = std::as_bytes(std::span(data, size));
  constexpr std::int64_t kMostPixels = 1 << 16;  // each input takes its time
  image::DecodeOptions options;
  options.max_pixels = kMostPixels;
  options.apply_exif = size % 2 == 0;
  hydrascope::fuzz::gives_result([&] {
    const image::Picture picture = image::decode(bytes, options);
    hydrascope::fuzz::require(picture.width > 0 && picture.height > 0 &&
                                  std::int64_t{picture.width} * picture.height <= kMostPixels,
                              "sizes are within the limit");
    hydrascope::fuzz::require(picture.rgb.size() == std::size_t{3} *
                                                        static_cast<std::size_t>(picture.width) *
                                                        static_cast<std::size_t>(picture.height),
                              "every pixel is there");
  });
  return 0;
}
