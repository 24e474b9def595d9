#include "model/image/picture_formats.h"

#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/image/decoders/decoders.h"
#include "tests/model/image/corpus.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

std::vector<std::string> extensions_of(const PictureFormat& format) {
  std::istringstream words{std::string(format.extensions)};
  std::vector<std::string> extensions;
  for (std::string word; words >> word;) extensions.push_back(word);
  return extensions;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A picture of each format that is read.
std::map<std::string, std::string> samples() {
  using hydrascope::testing::good_picture;
  using hydrascope::testing::read_bytes;
  std::map<std::string, std::string> samples{{"pnm", hydrascope::testing::ppm(8, 6)}};
  for (const auto& [format, file] :
       std::initializer_list<std::pair<const char*, const char*>>{{"jpeg", "baseline.jpg"},
                                                                  {"png", "colour.png"},
                                                                  {"webp", "lossy.webp"},
                                                                  {"tiff", "lzw.tif"},
                                                                  {"bmp", "colour.bmp"},
                                                                  {"gif", "first_of_two.gif"},
                                                                  {"jpeg2000", "colour.jp2"}})
    samples[format] = read_bytes(good_picture(file));
  // One black pixel of grey: header, no palette, resources or layers, raw samples.
  std::string psd("8BPS\0\1\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0\1\0\x08\0\3", 26);
  psd += std::string(12, '\0') + std::string(2, '\0') + std::string(3, '\0');
  samples["psd"] = psd;
  return samples;
}

TEST(PictureFormatsTest, EachHasNamesThatNoOtherHas) {
  std::set<std::string> known;
  for (const PictureFormat& format : picture_formats()) {
    EXPECT_FALSE(extensions_of(format).empty()) << format.name;
    for (const std::string& extension : extensions_of(format)) {
      EXPECT_TRUE(known.insert(extension).second) << extension;
      EXPECT_EQ(format_of_name("x/a.b" + extension), &format) << extension;
      EXPECT_FALSE(is_named_as_video("a" + extension)) << extension;
    }
    EXPECT_TRUE(format.decoders == Decoders::none || format.begins != nullptr) << format.name;
  }
  EXPECT_EQ(format_of_name("A.JPG"), format_of_name("a.jpeg"));
  for (const char* name : {"a", ".jpg", "a.txt", "a.", "a.jp", "a.jpg ", "a. ", ""})
    EXPECT_EQ(format_of_name(name), nullptr) << name;
  for (const char* name : {"a.MP4", "a.ts", "x.y/a.mjpeg", "a.h264", "a.3gp"})
    EXPECT_TRUE(is_named_as_video(name)) << name;
  for (const char* name : {"a", ".mp4", "a.txt", "a.m", "a.", "a. "})
    EXPECT_FALSE(is_named_as_video(name)) << name;
}

TEST(PictureFormatsTest, WhatIsReadIsKnownByItsBytesAndDecoded) {
  const std::map<std::string, std::string> pictures = samples();
  const DecodeOptions options;
  for (const PictureFormat& format : picture_formats()) {
    if (format.decoders == Decoders::none) continue;
    const auto sample = pictures.find(std::string(format.name));
    ASSERT_NE(sample, pictures.end()) << "no sample of " << format.name;
    const std::span<const std::byte> bytes = bytes_of(sample->second);
    EXPECT_EQ(format_of_bytes(bytes), &format) << format.name;
    EXPECT_EQ(format_of_bytes(bytes.subspan(0, std::min<std::size_t>(64, bytes.size()))), &format);
    EXPECT_EQ(probe(bytes).format, format.name);
    if (format.decoders == Decoders::opencv && opencv_name().empty()) {
      try {
        decode(bytes, options);
        ADD_FAILURE() << format.name << " is read without OpenCV";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported_format) << format.name;
      }
    } else {
      EXPECT_GT(decode(bytes, options).width, 0) << format.name;
    }
    EXPECT_NE(readable_formats().find(format.title), std::string::npos);
  }
}

TEST(PictureFormatsTest, NoFormatBeginsAsAnother) {
  using std::string_view_literals::operator""sv;
  // The first bytes of pictures that Pillow and FFmpeg write.
  std::map<std::string, std::string> beginnings = samples();
  const std::pair<const char*, std::string_view> others[] = {
      {"", "\0\0\2\0\0\0\0\0\0\0\0\0\x0C\0\x0C\0\x18\x20"sv},    // TGA, colours
      {"", "\0\1\1\0\0\0\1\x18\0\0\0\0\x0C\0\x0C\0\x08\x20"sv},  // TGA, palette
      {"", "\0\0\3\0\0\0\0\0\0\0\0\0\x0C\0\x0C\0\x08\x20"sv},    // TGA, grey
      {"", "\x0A\5\1\x08\0\0\0\0\x0B\0\x0B\0\x64\0\x64\0"sv},    // PCX
      {"", "\0\0\1\xBA\x44\0\4\0\4\1"sv},                        // MPEG
      {"", "\0\0\0\1\x67\x64\0\x0A\xAC\xD9"sv},                  // H.264
      {"", "\0\0\1\0\0\x0F\xFF\xF8"sv},                          // MPEG's picture
      {"", "\0\1\0\0\0\x0F\0\x80\0\3\0\x70"sv},                  // TrueType
      {"ico", "\0\0\1\0\1\0\x10\x10\0\0\0\0\x20\0\x56\0\0\0\x16\0\0\0"sv},
      {"ico", "\0\0\2\0\1\0\x20\x20\0\0\1\0\1\0\x30\1\0\0\x16\0\0\0"sv},
      {"sgi", "\x01\xDA\0\1\0\3\0\x0C\0\x0C\0\3"sv},
      {"dds", "DDS \x7C\0\0\0\x0F\x10\0\0"sv},
  };
  for (const auto& [name, bytes] : others) {
    const PictureFormat* format = format_of_bytes(bytes_of(std::string(bytes)));
    EXPECT_EQ(format == nullptr ? "" : format->name, name) << ::testing::PrintToString(bytes);
    beginnings[name] = bytes;
  }
  for (const auto& [name, bytes] : beginnings) {
    const std::string head = bytes.substr(0, 64);
    for (const PictureFormat& format : picture_formats()) {
      const bool is_taken = format.begins != nullptr && format.begins(bytes_of(head));
      EXPECT_TRUE(!is_taken || format.name == name) << format.name << " takes one of " << name;
    }
  }
}

TEST(PictureFormatsTest, WhatIsNotReadIsNamed) {
  using std::string_view_literals::operator""sv;
  const hydrascope::testing::TemporaryFolder folder;
  const auto expect = [&](const char* name, std::string_view bytes, const char* words) {
    try {
      read_picture(folder.write(name, bytes), {});
      ADD_FAILURE() << name << " is read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported_format) << name;
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect("a.HEIC",
         "\0\0\0\x18"
         "ftypheic"sv,
         "HEIF");
  expect("a.jpg",
         "\0\0\0\x18"
         "ftypmif1"sv,
         "HEIF");
  expect("a.avif",
         "\0\0\0\x20"
         "ftypavif\0\0\0\0"sv,
         "AVIF");
  expect("a.jxl", "\xFF\x0A\xFA\x7F"sv, "JPEG XL");
  expect("a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"sv, "SVG");
  expect("a.CR2", "II*\0\x10\0\0\0CR\2\0"sv, "camera raw");
  expect("a.raf", "FUJIFILMCCD-RAW 0201"sv, "camera raw");
  expect("a.psb", "8BPS\0\2\0\0\0\0\0\0"sv, "PSB");
  expect("a.exr", "\x76\x2F\x31\x01\2\0\0\0"sv, "OpenEXR");
  expect("a.tga", "\0\0\2\0\0\0\0\0\0\0\0\0\x0C\0\x0C\0\x18\x20"sv, "TGA");
  expect("a.pcx", "\x0A\5\1\x08"sv, "PCX");
  expect("a.svg", "<?xml version='1.0'?>\n<svg/>"sv, "SVG");
  expect("a.dat", "\0\0\2\0\0\0\0\0\0\0\0\0\x0C\0\x0C\0\x18\x20"sv, "no picture in a known format");
  // Most camera raw files are TIFFs, whose first picture is a preview.
  const std::string tiff =
      hydrascope::testing::read_bytes(hydrascope::testing::good_picture("lzw.tif"));
  for (const char* name : {"a.nef", "a.DNG", "a.arw"}) expect(name, tiff, "camera raw");
}

}  // namespace
}  // namespace hydrascope::image
