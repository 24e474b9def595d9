#include "model/image/labels.h"

#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace hydrascope::image {
namespace labels_test {

using testing::Json;

Labels parse(std::string_view text) { return Labels::parse(text, "labels.txt"); }

TEST(Labels, EveryListIsReadOrRefused) {
  for (const Json& row : testing::read_cases("model/image/labels.jsonl")) {
    testing::expect_case(row, [&] {
      const Labels labels = parse(row.at("text").get<std::string>());
      EXPECT_EQ(row.value("size", labels.size()), labels.size());
      EXPECT_EQ(row.value("has_ids", labels.has_ids()), labels.has_ids());
      const auto each = [&](const char* field, std::string Label::*member) {
        for (const auto& [index, text] : testing::members(row, field))
          EXPECT_EQ(labels.at(std::stoi(index)).*member, text.get<std::string>()) << index;
      };
      each("ids", &Label::id);
      each("names", &Label::names);
      each("short", &Label::short_name);
      for (const auto& [name, classes] : testing::members(row, "find"))
        EXPECT_EQ(Json(labels.find_name(name)), classes) << name;
    });
  }
}

TEST(Labels, FindsIdsInAnyCase) {
  const Labels labels = parse("n01440764 tench\nn02012849 crane\n");
  EXPECT_EQ(labels.find_id("n02012849"), 1);
  EXPECT_EQ(labels.find_id("N02012849"), 1);
  EXPECT_EQ(labels.find_id("n99999999"), std::nullopt);
  EXPECT_EQ(labels.find_id("crane"), std::nullopt);
  EXPECT_THROW(static_cast<void>(labels.at(2)), Error);
  EXPECT_THROW(static_cast<void>(labels.at(-1)), Error);
}

TEST(Labels, NumberedAndGiven) {
  const Labels labels = Labels::numbered(3);
  ASSERT_EQ(labels.size(), 3);
  EXPECT_EQ(labels.at(2).id, "");
  EXPECT_EQ(labels.at(2).short_name, "2");
  EXPECT_EQ(Json(labels.find_name("1")), Json::array({1}));
  EXPECT_EQ(Labels::numbered(0).size(), 0);
  const Labels made = Labels::of({{"", "a, b", "a, b"}, {"n1", "c", "c"}}, "classes");
  EXPECT_EQ(made.at(0).short_name, "a, b");
  EXPECT_EQ(made.at(1).id, "n1");
  for (const char* name : {"", " ", "a\nb", "a\rb"})
    EXPECT_ERROR(Labels::of({{"", name, name}}, "classes"), invalid_argument, "classes");
}

TEST(Labels, Files) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("labels.txt", "n01440764 tench\nn02012849 crane\n");
  EXPECT_EQ(Labels::load(file).size(), 2);
  EXPECT_ERROR(Labels::load(folder.path() / "none.txt"), not_found, "none.txt");
  EXPECT_ERROR(Labels::load(folder.path()), unreadable);
  folder.write("labels.txt", "");
  EXPECT_ERROR(Labels::load(file), empty, "labels.txt");
  std::filesystem::resize_file(file, (16 << 20) + 1);
  EXPECT_ERROR(Labels::load(file), too_large, "labels.txt");
}

}  // namespace labels_test
}  // namespace hydrascope::image
