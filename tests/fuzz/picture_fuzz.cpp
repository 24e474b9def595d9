// Fuzzes what hydrascope reads of pictures by itself, before and beside the decoders: headers, signs of
// damage, the end of a PNG, and portable maps.

#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/image/decoders/decoders.h"
#include "model/image/decoders/webp_still.h"
#include "tests/fuzz/fuzz_driver.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace {

namespace image = hydrascope::image;
using hydrascope::Error;
using hydrascope::ErrorCode;
using hydrascope::fuzz::require;

/// Anything but an Error ends the program: that is what fuzzing is for.
template <class Read>
void expect_result_or_error(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::decode_failed ||
                error.code() == ErrorCode::unsupported_format || error.code() == ErrorCode::empty,
            "errors have one of three codes");
  }
}

void decode_portable_map(std::span<const std::byte> bytes, const image::Header& header) {
  constexpr std::int64_t kMostPixels = 1 << 16;  // each input takes its time
  if (header.width > kMostPixels || header.height > kMostPixels ||
      header.width * header.height > kMostPixels)
    return;
  expect_result_or_error([&] {
    const image::Picture picture = image::decode_pnm(bytes);
    require(picture.width == header.width && picture.height == header.height,
            "the picture has its header's size");
    require(picture.rgb.size() == static_cast<std::size_t>(header.width * header.height * 3),
            "every pixel is there");
  });
}

void expect_frame_or_error(std::span<const std::byte> bytes) {
  expect_result_or_error([&] {
    const auto frame = image::extract_first_webp_frame(bytes);
    require(!frame || frame->size() <= bytes.size() + 64, "a frame is a part of its file");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes = std::as_bytes(std::span(data, size));
  const image::Header header = image::probe(bytes);
  require(header.width >= 0 && header.height >= 0, "sizes are not negative");
  require(header.orientation >= 1 && header.orientation <= 8, "orientations are Exif's eight");
  if (header.format.empty()) return 0;
  require(image::find_damage(bytes, header).size() < 1000, "messages are short");
  if (header.format == "png") {
    static_cast<void>(image::has_sound_png_checksums(bytes));
    if (const auto whole = image::restore_png_end(bytes))
      require(whole->size() <= size + 64, "an end is some bytes");
  }
  if (header.format == "webp") expect_frame_or_error(bytes);
  if (header.format == "pnm") decode_portable_map(bytes, header);
  return 0;
}

namespace {

std::vector<std::string> samples() {
  std::vector<std::string> files;
  const auto folder = std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/pictures/good";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    if (!image::probe({begin, bytes.size()}).format.empty()) files.push_back(std::move(bytes));
  }
  std::ranges::sort(files);
  files.insert(files.end(), {"P1\n# a comment\n3 2\n1 0 1\n0 1 0\n", "P2\n2 2\n15\n0 5 10 15\n",
                             "P3 1 1 255 1 2 3\n", std::string("P4\n9 1\n\xAA\x80"),
                             std::string("P5 2 1 65535\n\0\1\2\3", 17)});
  return files;
}

/// What random bytes would hardly ever build.
const std::vector<std::string> kTokens{"\xFF\xD8\xFF",
                                       "\xFF\xC0",
                                       "\xFF\xC2",
                                       "\xFF\xDA",
                                       "\xFF\xD9",
                                       "\xFF\xE1",
                                       "\xFF\xDD",
                                       std::string("Exif\0\0", 6),
                                       std::string("II*\0", 4),
                                       std::string("MM\0*", 4),
                                       "IHDR",
                                       "IDAT",
                                       "IEND",
                                       "eXIf",
                                       "tRNS",
                                       "RIFF",
                                       "WEBP",
                                       "VP8 ",
                                       "VP8L",
                                       "VP8X",
                                       "ANMF",
                                       "GIF89a",
                                       ",",
                                       ";",
                                       "BM",
                                       "P6",
                                       "#",
                                       "\n",
                                       std::string("\0\0\0\0", 4),
                                       "\xFF\xFF\xFF\xFF",
                                       "\x7F\xFF\xFF\xFF",
                                       std::string("\x80\0\0\0", 4),
                                       std::string("\x12\1\3\0\1\0\0\0", 8)};

/// Two or four bytes at `at` become a number near the one they were, or of any magnitude.
void change_number(hydrascope::fuzz::Mutator& random, std::string& bytes, std::size_t at) {
  const std::size_t width = random.below(2) == 0 ? 2 : 4;
  if (bytes.size() < width) return;
  at = std::min(at, bytes.size() - width);
  const bool big_endian = random.below(2) == 0;
  const auto place = [&](std::size_t i) { return at + (big_endian ? width - 1 - i : i); };
  std::uint32_t value = 0;
  for (std::size_t i = width; i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(bytes[place(i)]);
  value = random.below(2) == 0 ? value + static_cast<std::uint32_t>(random.below(9)) - 4
                               : std::uint32_t{1} << random.below(32);
  for (std::size_t i = 0; i < width; ++i) bytes[place(i)] = static_cast<char>(value >> (8 * i));
}

}  // namespace

hydrascope::fuzz::Campaign hydrascope::fuzz::make_campaign(std::uint64_t seed) {
  const auto accepts = [](std::span<const std::byte> bytes) {
    const image::Header header = image::probe(bytes);
    return !header.format.empty() && image::find_damage(bytes, header).empty();
  };
  Campaign campaign{samples(), accepts, {}};
  const auto mutator = std::make_shared<Mutator>(seed, kTokens, change_number);
  campaign.next = [mutator, valid = campaign.valid] {
    std::string input = valid[mutator->below(valid.size())];
    mutator->mutate(input);
    return input;
  };
  return campaign;
}
