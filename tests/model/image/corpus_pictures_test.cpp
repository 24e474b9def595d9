// The pictures of tests/corpus without the program around the decoders: under the sanitizers, and by
// stb_image also where OpenCV is there. tests/corpus/corpus_test.py runs the program over them.
#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/image/decoders/decoders.h"
#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace corpus_pictures_test {

using Json = nlohmann::json;
using testing::bytes_of;

std::vector<Json> picture_rows() {
  std::vector<Json> rows;
  std::ifstream table(testing::corpus_folder() / "expected.jsonl");
  for (std::string line; std::getline(table, line);) {
    Json row = Json::parse(line);
    if (row.at("kind") == "picture") rows.push_back(std::move(row));
  }
  return rows;
}

std::string content_of(const Json& row) {
  return testing::read_file(testing::corpus_folder() / row.at("file").get<std::string>());
}

/// Grey levels, or 256 where sizes differ.
int distance_to_pillow(const Picture& picture, const Json& row) {
  const Picture expected = testing::pillows_answer(row.at("file"));
  if (picture.width != expected.width || picture.height != expected.height) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < expected.rgb.size(); ++i)
    largest = std::max(largest, std::abs(picture.rgb[i] - expected.rgb[i]));
  return largest;
}

TEST(CorpusPictures, GivePillowsPixelsOrTheirError) {
  const bool has_opencv = !opencv_name().empty();
  const std::vector<Json> rows = picture_rows();
  EXPECT_GT(rows.size(), 100U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.at("file"));
    const std::string content = content_of(row);
    const int tolerance =
        row.contains("tolerance") ? row["tolerance"][has_opencv ? 0 : 1].get<int>() : -1;
    try {
      const Picture picture = decode(bytes_of(content), {});
      if (row.value("error", "") == "any") continue;
      EXPECT_GE(tolerance, 0) << "an error is expected";
      if (tolerance >= 0 && !row.contains("as")) {
        EXPECT_LE(distance_to_pillow(picture, row), tolerance);
      }
    } catch (const Error& error) {
      EXPECT_LT(tolerance, 0) << error.what();
      if (has_opencv && row.value("error", "any") != "any") {
        EXPECT_EQ(name(error.code()), row["error"].get<std::string>()) << error.what();
      }
    }
  }
}

TEST(CorpusPictures, StbReadsWhatItIsAskedFor) {
  int compared = 0;
  for (const Json& row : picture_rows()) {
    if (!row.contains("tolerance") || row.contains("as")) continue;
    const int tolerance = row["tolerance"][1].get<int>();
    SCOPED_TRACE(row.at("file"));
    const std::string content = content_of(row);
    const Header header = probe(bytes_of(content));
    if (tolerance < 0 || header.orientation != 1 || header.format != "jpeg") continue;
    // Its end is lost, or CMYK, which stb_image converts in its own way.
    if (!find_jpeg_damage(bytes_of(content)).empty()) continue;
    try {
      EXPECT_LE(distance_to_pillow(decode_with_stb(bytes_of(content)), row), tolerance);
      ++compared;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GT(compared, 20);
}

}  // namespace corpus_pictures_test
}  // namespace hydrascope::image
