#include "model/image/decode.h"
#include "tests/model/image/corpus.h"
#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <string_view>

namespace hydrascope::image {
namespace {

using std::string_literals::operator""s;
using testing::bytes_of;
using testing::read_file;

/// In an allocation of just these bytes: AddressSanitizer (parser_tests_asan) sees what is read
/// outside.
Header probe_text(std::string_view text) {
  const auto bytes = std::make_unique<char[]>(text.size());
  std::ranges::copy(text, bytes.get());
  return probe(bytes_of({bytes.get(), text.size()}));
}

void expect_header(std::string_view text, std::string_view format, std::int64_t width,
                   std::int64_t height, int orientation = 1) {
  const Header header = probe_text(text);
  EXPECT_EQ(header.format, format);
  EXPECT_EQ(header.width, width);
  EXPECT_EQ(header.height, height);
  EXPECT_EQ(header.orientation, orientation);
}

/// A TIFF structure of big-endian SHORT entries.
std::string tiff_big(std::initializer_list<std::pair<int, int>> entries) {
  const auto u16 = [](int value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value & 0xFF)};
  };
  std::string tiff = "MM\0*\0\0\0\x08"s + u16(static_cast<int>(entries.size()));
  for (const auto& [tag, value] : entries) {
    tiff += u16(tag) + "\0\x03\0\0\0\x01"s + u16(value) + "\0\0"s;
  }
  return tiff + "\0\0\0\0"s;
}

TEST(Header, SamplesOfEveryFormat) {
  struct Sample {
    const char* file;
    const char* format;
    int orientation = 1;
  };
  constexpr std::array kSamples{
      Sample{"baseline.jpg", "jpeg"},   Sample{"progressive.jpg", "jpeg"},
      Sample{"exif.jpg", "jpeg", 6},    Sample{"colour.png", "png"},
      Sample{"exif.png", "png", 8},     Sample{"lossy.webp", "webp"},
      Sample{"alpha.webp", "webp"},     Sample{"exif.webp", "webp", 3},
      Sample{"animated.webp", "webp"},  Sample{"lzw.tif", "tiff"},
      Sample{"turned.tif", "tiff", 6},  Sample{"colour.bmp", "bmp"},
      Sample{"transparent.gif", "gif"}, Sample{"colour.jp2", "jpeg2000"},
  };
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.file);
    expect_header(read_file(testing::good_picture(sample.file)), sample.format, 19, 11,
                  sample.orientation);
  }
}

TEST(Header, SimpleWebpBitstreams) {
  expect_header("RIFF\x20\0\0\0WEBPVP8 \x10\0\0\0\x10\0\0\x9D\x01\x2A\x40\x01\xF0\x00"s, "webp",
                320, 240);
  // 14 bits each of width - 1 and height - 1 behind the signature byte 0x2F.
  expect_header("RIFF\x20\0\0\0WEBPVP8L\x10\0\0\0\x2F\x3F\xC1\x3B\x00"s, "webp", 320, 240);
}

TEST(Header, TiffInBothByteOrders) {
  expect_header(tiff_big({{0x100, 640}, {0x101, 480}, {0x112, 7}}), "tiff", 640, 480, 7);
  expect_header("II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\0\0\x45\x23\x01\0\0\0\0\0"s, "tiff",
                0x12345, 0);
}

TEST(Header, BmpRowsFromTheTopHaveANegativeHeight) {
  const std::string head = "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"s;
  expect_header(head + "\x05\0\0\0\xF9\xFF\xFF\xFF"s, "bmp", 5, 7);
  expect_header(head + "\x05\0\0\0\0\0\0\x80"s, "bmp", 5, std::int64_t{1} << 31);
  expect_header("BM\0\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\x05\0\x07\0\x01\0\x18\0"s, "bmp", 5, 7);
}

TEST(Header, PnmWithComments) {
  expect_header("P5\n# made by hand\n12 # wide\n34\n255\n", "pnm", 12, 34);
  expect_header("P4 8 9\n", "pnm", 8, 9);
  expect_header("P6 99999999999 1 255\n", "", 0, 0);
  expect_header("P6 1 1 70000\n", "", 0, 0);
  expect_header("P7 is the name of a gate", "", 0, 0);
}

TEST(Header, JpegOrientationIsReadFromExifBlocks) {
  const std::string exif = "Exif\0\0"s + tiff_big({{0x112, 5}});
  const std::string segment = "\xFF\xE1\x00"s + static_cast<char>(exif.size() + 2) + exif;
  const std::string frame = "\xFF\xC0\x00\x0B\x08\x00\x10\x00\x20\x01\x01\x11\x00"s;
  expect_header("\xFF\xD8"s + segment + frame, "jpeg", 32, 16, 5);
  expect_header("\xFF\xD8"s + frame + segment, "jpeg", 32, 16, 5);
  expect_header("\xFF\xD8\xFF\xFE\x00\x04"s + "XX" + segment + frame, "jpeg", 32, 16, 5);
}

TEST(Header, OrientationOutsideOneToEightIsNone) {
  for (const int value : {0, 9, 65535}) {
    expect_header(tiff_big({{0x100, 3}, {0x101, 2}, {0x112, value}}), "tiff", 3, 2, 1);
  }
}

/// A JPEG with segments of XMP, and one of Exif where that is not "".
std::string jpeg_with(const std::string& exif, const std::string& xmp) {
  const auto segment = [](const std::string& data) {
    const auto size = static_cast<int>(data.size() + 2);
    return "\xFF\xE1"s + static_cast<char>(size >> 8) + static_cast<char>(size & 0xFF) + data;
  };
  return "\xFF\xD8"s + segment("http://ns.adobe.com/xap/1.0/\0"s + xmp) +
         (exif.empty() ? "" : segment("Exif\0\0"s + exif)) +
         "\xFF\xC0\x00\x0B\x08\x00\x10\x00\x20\x01\x01\x11\x00"s;
}

// Pillow's regular expression finds tiff:Orientation(="|>)([0-9]).
TEST(Header, OrientationOfXmpWhereExifHasNone) {
  const auto expect = [](const std::string& exif, const std::string& xmp, int orientation) {
    SCOPED_TRACE(xmp);
    expect_header(jpeg_with(exif, xmp), "jpeg", 32, 16, orientation);
  };
  const std::string maker = tiff_big({{0x10F, 7}});
  expect("", R"(<a tiff:Orientation="6"/>)", 6);
  expect("", "<tiff:Orientation>8</tiff:Orientation>", 8);
  expect("", R"(<tiff:OrientationX="3" tiff:Orientation='3' tiff:Orientation>5)", 5);
  expect("", R"(tiff:Orientation="2" tiff:Orientation="3")", 2);
  expect("", R"(tiff:Orientation="9")", 1);
  expect("", R"(tiff:Orientation=")", 1);
  expect("", "tiff:Orientation", 1);
  expect(maker, R"(tiff:Orientation="7")", 7);
  expect(tiff_big({{0x112, 3}}), R"(tiff:Orientation="7")", 3);
  expect(tiff_big({{0x112, 1}}), R"(tiff:Orientation="7")", 1);
  expect(tiff_big({{0x112, 0}}), R"(tiff:Orientation="7")", 1);
}

TEST(Header, FormatsKnownByNameOnly) {
  EXPECT_EQ(probe_text("\0\0\0\x20"
                       "ftypavif"s)
                .format,
            "avif");
  EXPECT_EQ(probe_text("\0\0\0\x20"
                       "ftypheic"s)
                .format,
            "heif");
  EXPECT_EQ(probe_text("\xFF\x0A").format, "jpegxl");
}

TEST(Header, OtherContentIsUnknown) {
  for (const std::string& text :
       {""s, "hello"s, "\0\0\0\0"s, "BMW is a car"s, "GIF90a"s, "\xFF\xD8"s}) {
    expect_header(text, "", 0, 0);
  }
}

// Sizes, offsets and lengths that point anywhere: nothing may be read outside the bytes, and nothing
// may hang.
TEST(Header, HostileBytes) {
  std::mt19937 random(7);
  for (const auto& entry : std::filesystem::directory_iterator(testing::good_picture(""))) {
    const std::string good = read_file(entry.path());
    for (std::size_t length = 0; length < std::min<std::size_t>(good.size(), 300); ++length) {
      probe_text(std::string_view(good).substr(0, length));
    }
    for (int round = 0; round < 50; ++round) {
      std::string bad = good;
      for (int i = 0; i < 8; ++i)
        bad[random() % std::min<std::size_t>(bad.size(), 200)] = static_cast<char>(random());
      const Header header = probe_text(bad);
      EXPECT_GE(header.width, 0);
      EXPECT_GE(header.height, 0);
      EXPECT_GE(header.orientation, 1);
      EXPECT_LE(header.orientation, 8);
    }
  }
}

}  // namespace
}  // namespace hydrascope::image
