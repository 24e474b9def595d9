#include "model/image/picture_formats.h"

#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/image/decoders/decoders.h"
#include "tests/cases.h"
#include "tests/model/image/sample_files.h"
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

using namespace hydrascope::testing;

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
  std::map<std::string, std::string> samples{{"pnm", ppm(8, 6)}};
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
  for (const PictureFormat& format : picture_formats) {
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
  for (const PictureFormat& format : picture_formats) {
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
  std::map<std::string, std::string> beginnings = samples();
  for (const Json& row : read_cases("model/image/picture_beginnings.jsonl")) {
    const std::string bytes = bytes_in(row.at("bytes").get<std::string>());
    const PictureFormat* format = format_of_bytes(bytes_of(bytes));
    EXPECT_EQ(format == nullptr ? "" : format->name, row.at("format").get<std::string>()) << row;
    beginnings[row.at("format")] = bytes;
  }
  for (const auto& [name, bytes] : beginnings) {
    const std::string head = bytes.substr(0, 64);
    for (const PictureFormat& format : picture_formats) {
      const bool is_taken = format.begins != nullptr && format.begins(bytes_of(head));
      EXPECT_TRUE(!is_taken || format.name == name) << format.name << " takes one of " << name;
    }
  }
}

TEST(PictureFormatsTest, WhatIsNotReadIsNamed) {
  const TemporaryFolder folder;
  for (const Json& row : read_cases("model/image/unread_pictures.jsonl")) {
    const std::string bytes = row.contains("as") ? read_bytes(good_picture(row["as"]))
                                                 : bytes_in(row.at("bytes").get<std::string>());
    expect_case(row, [&] { read_picture(folder.write(row.at("name"), bytes), {}); });
  }
}

}  // namespace
}  // namespace hydrascope::image
