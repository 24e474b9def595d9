#include "model/image/decode.h"
#include "tests/cases.h"
#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>

namespace hydrascope::image {
namespace {

using std::string_literals::operator""s;
using testing::bytes_of;
using testing::Json;
using testing::read_file;

/// In an allocation of just these bytes: AddressSanitizer (parser_tests_asan) sees what is read
/// outside.
Header probe_text(std::string_view text) {
  const auto bytes = std::make_unique<char[]>(text.size());
  std::ranges::copy(text, bytes.get());
  return probe(bytes_of({bytes.get(), text.size()}));
}

std::string big_endian(std::size_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value & 0xFF)};
}

/// A TIFF structure of big-endian SHORT entries.
std::string tiff_of(const Json& entries) {
  std::string tiff = "MM\0*\0\0\0\x08"s + big_endian(entries.size());
  for (const Json& entry : entries)
    tiff += big_endian(entry.at(0)) + "\0\x03\0\0\0\x01"s + big_endian(entry.at(1)) + "\0\0"s;
  return tiff + "\0\0\0\0"s;
}

std::string content_of(const Json& row) {
  if (row.contains("file")) return read_file(testing::good_picture(row["file"]));
  if (row.contains("tiff")) return tiff_of(row["tiff"]);
  if (row.contains("bytes")) return testing::bytes_in(row["bytes"].get<std::string>());
  std::string jpeg = "\xFF\xD8";
  for (const Json& part : row.at("jpeg")) {
    std::string data;
    if (part[0] == "xmp") data = "http://ns.adobe.com/xap/1.0/\0"s + part[1].get<std::string>();
    if (part[0] == "exif") data = "Exif\0\0"s + tiff_of(Json::array({part[1]}));
    jpeg += part[0] == "frame"     ? "\xFF\xC0\x00\x0B\x08\x00\x10\x00\x20\x01\x01\x11\x00"s
            : part[0] == "comment" ? "\xFF\xFE\x00\x04XX"s
                                   : "\xFF\xE1" + big_endian(data.size() + 2) + data;
  }
  return jpeg;
}

TEST(Header, EveryFormat) {
  for (const Json& row : testing::read_cases("model/image/decoders/headers.jsonl")) {
    SCOPED_TRACE(row);
    const Header header = probe_text(content_of(row));
    const bool is_jpeg = row.contains("jpeg");
    EXPECT_EQ(header.format, row.value("format", is_jpeg ? "jpeg" : ""));
    EXPECT_EQ(header.orientation, row.value("orientation", 1));
    const Json size{header.width, header.height};
    EXPECT_EQ(size, row.value("size", is_jpeg ? Json{32, 16} : size));
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
