#include "model/checkpoint/formats/sha256.h"

#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace {

std::string of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256Test, EqualsPublishedVectors) {
  for (const testing::Json& row : testing::read_cases("model/checkpoint/formats/sha256.jsonl")) {
    std::string text;
    for (int i = 0; i < row.at("times"); ++i) text += row.at("text").get<std::string>();
    EXPECT_EQ(of(text), row.at("sha256").get<std::string>()) << row;
  }
}

TEST(Sha256Test, OfAFile) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("a", "abc")), of("abc"));
  EXPECT_EQ(sha256_of_file(folder.write("b")), of(""));
  EXPECT_ERROR(sha256_of_file(folder.path() / "c"), not_found);
}

}  // namespace
}  // namespace hydrascope::checkpoint
