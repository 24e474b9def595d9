#include "model/image/decode.h"

#include "kernels/error.h"
#include "model/image/decoders/decoders.h"
#include "model/image/needed_pixels.h"
#include "tests/as_nobody.h"
#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::image {
namespace decode_test {

using std::string_literals::operator""s;
using testing::bytes_of;
using testing::read_file;

bool has_opencv() { return decoder_name().starts_with("OpenCV"); }

std::string sample(std::string_view name) {
  return read_file(testing::good_picture(std::string(name)));
}

Picture decode_text(std::string_view text, const DecodeOptions& options = {}) {
  return decode(bytes_of(text), options);
}

std::optional<ErrorCode> failure_of(std::string_view text) {
  try {
    decode_text(text);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

std::array<std::uint8_t, 3> pixel(const Picture& picture, int x, int y) {
  const std::size_t at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
                          static_cast<std::size_t>(x)) *
                         3;
  return {picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]};
}

TEST(Decode, JpegWithoutOpencvHasItsPixels) {
  if (!has_opencv()) GTEST_SKIP() << "this build has no OpenCV";
  for (const char* file :
       {"baseline.jpg", "progressive.jpg", "grey.jpg", "exif.jpg", "restarts.jpg"}) {
    const std::string text = sample(file);
    const Header header = probe(bytes_of(text));
    if (!has_libjpeg) GTEST_SKIP() << "this build has no header of libjpeg";
    EXPECT_EQ(decode_with_libjpeg(bytes_of(text), header, {0, 0, header.height, header.width}).rgb,
              decode_with_opencv(bytes_of(text), header, {}).rgb)
        << file;
  }
  std::string damaged = sample("baseline.jpg");
  const std::size_t table = damaged.find("\xFF\xDB");
  damaged.replace(table, 2, "\xFF\xFE");  // a comment instead of the first table of steps
  EXPECT_ERROR(decode_with_libjpeg(bytes_of(damaged), probe(bytes_of(damaged)), {}), decode_failed,
               "Quantization table");
}

/// Coefficients of rows that were given out are forgotten; coefficients of the rows to come are not.
TEST(Decode, AJpegOfSeveralScansIsThatOfOne) {
  const auto read = [](const char* name) {
    return decode_text(testing::read_file(testing::data_folder("jpeg") / name));
  };
  const Picture progressive = read("wide_progressive.jpg");
  EXPECT_EQ(progressive.width, 1040);
  EXPECT_EQ(progressive.height, 640);
  EXPECT_EQ(progressive.rgb, read("wide_baseline.jpg").rgb);
}

/// Beside the needed columns chroma is smoothed without its neighbours: that must not reach them.
TEST(Decode, NeededPixelsAreThoseOfTheWholePicture) {
  std::vector<std::string> files{
      testing::read_file(testing::data_folder("jpeg") / "wide_baseline.jpg"),
      testing::read_file(testing::data_folder("jpeg") / "wide_progressive.jpg")};
  for (const char* name :
       {"baseline.jpg", "progressive.jpg", "grey.jpg", "restarts.jpg", "cmyk.jpg", "exif.jpg"})
    files.push_back(sample(name));
  for (const std::string& file : files) {
    const Picture whole = decode_text(file);
    for (const auto& [first, end] :
         {std::pair{0.0, 0.3}, {0.01, 0.02}, {0.25, 0.75}, {0.331, 0.67}, {0.9, 1.0}}) {
      const auto left = static_cast<std::int64_t>(first * whole.width);
      const std::int64_t right = std::max(left + 1, static_cast<std::int64_t>(end * whole.width));
      const NeededPixels needed = [left = left, right](std::int64_t height, std::int64_t) {
        return PixelBox{0, left, height, right - left};
      };
      const Picture part = decode(bytes_of(file), {}, needed);
      ASSERT_EQ(part.width, whole.width);
      ASSERT_EQ(part.height, whole.height);
      for (int y = 0; y < whole.height; ++y) {
        const auto row = static_cast<std::ptrdiff_t>(y) * 3 * whole.width;
        ASSERT_TRUE(std::equal(whole.rgb.begin() + row + 3 * left,
                               whole.rgb.begin() + row + 3 * right,
                               part.rgb.begin() + row + 3 * left))
            << "row " << y << ", columns " << left << " to " << right;
      }
    }
  }
}

/// TIFF 6.0, WhiteIsZero, also of 16 bits, which Pillow shows as a negative or not at all.
TEST(Decode, ZeroIsWhiteInTiffWhereItSaysSo) {
  for (const bool is_big : {false, true}) {
    std::string file = is_big ? "MM" : "II";
    const auto add = [&](std::uint32_t value, std::size_t bytes) {
      for (std::size_t i = 0; i < bytes; ++i)
        file += static_cast<char>(value >> 8 * (is_big ? bytes - 1 - i : i) & 0xFF);
    };
    add(42, 2);
    add(8, 4);
    constexpr std::uint32_t kEntries[][2] = {{256, 3},   {257, 1}, {258, 16}, {259, 1}, {262, 0},
                                             {273, 122}, {277, 1}, {278, 1},  {279, 6}};
    add(std::size(kEntries), 2);
    for (const auto& [tag, value] : kEntries) {
      add(tag, 2);
      add(4, 2);  // a long
      add(1, 4);
      add(value, 4);
    }
    add(0, 4);
    for (const std::uint32_t sample : {0x0000U, 0xFFFFU, 0x40FFU}) add(sample, 2);
    const Picture picture = decode_text(file);
    ASSERT_EQ(picture.width, 3);
    EXPECT_EQ(pixel(picture, 0, 0), (std::array<std::uint8_t, 3>{255, 255, 255}));
    EXPECT_EQ(pixel(picture, 1, 0), (std::array<std::uint8_t, 3>{0, 0, 0}));
    EXPECT_EQ(pixel(picture, 2, 0), (std::array<std::uint8_t, 3>{0xBF, 0xBF, 0xBF}));
  }
}

TEST(Decode, PnmInEveryForm) {
  const std::array<std::uint8_t, 3> black{0, 0, 0};
  const std::array<std::uint8_t, 3> white{255, 255, 255};
  for (const std::string& bytes :
       {"P1 # text\n2 1\n10"s, "P4 2 1\n\x80"s, "P2 2 1 9\n0 9"s, "P5 2 1 9\n\0\x09"s,
        "P5 2 1 65535\n\0\0\xFF\xFF"s, "P3 2 1 1 0 0 0 1 1 1"s}) {
    const Picture picture = decode_text(bytes);
    EXPECT_EQ(pixel(picture, 0, 0), black) << bytes;
    EXPECT_EQ(pixel(picture, 1, 0), white) << bytes;
  }
  EXPECT_EQ(pixel(decode_text("P6 1 1 255\n\x01\x02\x03"), 0, 0),
            (std::array<std::uint8_t, 3>{1, 2, 3}));
  for (const std::string& bytes :
       {"P1 2 1\n1"s, "P4 9 1\n\x80"s, "P2 2 1 9\n0"s, "P5 2 1 9\n0"s, "P6 1 1 255\n12"s}) {
    EXPECT_EQ(failure_of(bytes), ErrorCode::decode_failed) << bytes;
  }
}

TEST(Decode, BackgroundUnderTransparency) {
  DecodeOptions options;
  options.background = {10, 200, 30};
  const Picture over_white = decode_text(sample("alpha.png"));
  const Picture over_colour = decode_text(sample("alpha.png"), options);
  // Alpha is 14 x + 7 y modulo 256, the colour (13 x, 23 y, 5 x + 9 y): see corpus_pictures.py.
  EXPECT_EQ(pixel(over_white, 0, 0), (std::array<std::uint8_t, 3>{255, 255, 255}));
  EXPECT_EQ(pixel(over_colour, 0, 0), options.background);
  EXPECT_EQ(pixel(over_colour, 10, 2)[0], (130 * 154 + 10 * 101 + 127) / 255);
  EXPECT_EQ(pixel(over_colour, 10, 2)[1], (46 * 154 + 200 * 101 + 127) / 255);
}

TEST(Decode, OrientationCanBeIgnored) {
  DecodeOptions options;
  EXPECT_EQ(decode_text(sample("exif.jpg"), options).width, 11);
  options.apply_exif = false;
  EXPECT_EQ(decode_text(sample("exif.jpg"), options).width, 19);
}

// The header of a PNG and nothing else: the limit is checked before anything is allocated.
TEST(Decode, RefusesSizesAboveTheLimit) {
  std::string bomb = sample("colour.png");
  bomb.replace(16, 8, "\x00\x01\x86\xA0\x00\x01\x86\xA0"s);
  EXPECT_ERROR(decode_text(bomb), too_large, "100000x100000", "536870912");
  bomb.replace(16, 8, "\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF"s);
  EXPECT_ERROR(decode_text(bomb), too_large, "2147483647x2147483647");
  DecodeOptions options;
  options.max_pixels = 19 * 11;
  EXPECT_NO_THROW(decode_text(sample("colour.png"), options));
  options.max_pixels = 19 * 11 - 1;
  EXPECT_ERROR(decode_text(sample("colour.png"), options), too_large, "11x19");
}

TEST(Decode, JpegCutAnywhereIsAnError) {
  for (const char* file : {"baseline.jpg", "progressive.jpg", "restarts.jpg"}) {
    const std::string whole = sample(file);
    for (std::size_t length = 3; length < whole.size(); ++length) {
      ASSERT_EQ(failure_of(std::string_view(whole).substr(0, length)), ErrorCode::decode_failed)
          << file << " cut to " << length << " of " << whole.size();
    }
  }
}

// Zeros, as a file system leaves them, behind all rows or within them.
TEST(Decode, JpegWhoseEndIsLost) {
  if (!has_libjpeg) GTEST_SKIP() << "this build has no header of libjpeg";
  const std::string whole = sample("baseline.jpg");
  const std::string zeros(5000, '\0');
  EXPECT_EQ(decode_text(whole.substr(0, whole.size() - 2) + zeros).rgb, decode_text(whole).rgb);
  EXPECT_ERROR(decode_text(whole.substr(0, whole.size() - 2)), decode_failed, "truncated");
  EXPECT_ERROR(decode_text(whole.substr(0, whole.size() - 80)), decode_failed, "truncated");
}

TEST(Decode, BytesBehindThePictureAreIgnored) {
  for (const char* file :
       {"baseline.jpg", "progressive.jpg", "colour.png", "colour.bmp", "transparent.gif"}) {
    const Picture clean = decode_text(sample(file));
    EXPECT_EQ(decode_text(sample(file) + "trailing \xFF\xD8 bytes").rgb, clean.rgb) << file;
  }
}

// Pillow takes both: the pixels are complete.
TEST(Decode, OnlyTheEndMarkIsMissing) {
  const std::string png = sample("colour.png");
  const Picture clean = decode_text(png);
  // The last 4 bytes of the data are their sum, the 4 behind them the chunk's.
  for (std::size_t cut = 1; cut <= 12 + 4 + 4; ++cut) {
    EXPECT_EQ(decode_text(std::string_view(png).substr(0, png.size() - cut)).rgb, clean.rgb) << cut;
  }
}

// Codecs like to print; a program's standard error belongs to the program.
TEST(Decode, PrintsNothing) {
  std::string early_end = sample("baseline.jpg");
  early_end.replace(early_end.size() - 60, 60, "\xFF\xD9");
  std::string damaged_png = sample("colour.png");
  damaged_png[damaged_png.find("IDAT") + 8] ^= 0x55;
  std::string short_tiff = sample("lzw.tif");
  short_tiff.resize(short_tiff.size() / 2);
  ::testing::internal::CaptureStderr();
  failure_of(early_end);
  const auto png_failure = failure_of(damaged_png);
  const auto tiff_failure = failure_of(short_tiff);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(png_failure, ErrorCode::decode_failed);
  EXPECT_NE(tiff_failure, std::nullopt);
}

TEST(ReadPicture, FromFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("the name says nothing.txt", sample("colour.png"));
  EXPECT_EQ(read_picture(file, {}).rgb, testing::pillows_answer("pictures/good/colour.png").rgb);
}

TEST(ReadPicture, Errors) {
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(read_picture(folder.path() / "nowhere.jpg", {}), not_found, "nowhere.jpg");
  EXPECT_ERROR(read_picture(folder.path(), {}), unreadable, "Is a directory");
  EXPECT_ERROR(read_picture(folder.write("zero.png", ""), {}), empty, "zero.png");
  EXPECT_ERROR(read_picture(folder.write("text.jpg", "text"), {}), unsupported_format, "text.jpg");
}

TEST(ReadPicture, WithoutPermission) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("secret.png", sample("colour.png"));
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const testing::AsNobody nobody(folder.path());
  EXPECT_ERROR(read_picture(file, {}), unreadable, "secret.png");
}

}  // namespace decode_test
}  // namespace hydrascope::image
