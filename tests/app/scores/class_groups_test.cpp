#include "app/scores/class_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace hydrascope::app {
namespace class_groups_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const image::Labels kFour = image::Labels::parse(
    "n01608432 kite\nn01614925 bald eagle\nn01558993 robin\nn02123045 tabby\n", "test");

std::vector<std::string> names(const ClassGroups& groups, std::int64_t index) {
  std::vector<std::string> names;
  for (const std::size_t place : groups.chain(index)) names.push_back(groups.groups()[place].name);
  return names;
}

TEST(ClassGroupsTest, ImageNetHasChainsOfGroupsAndScenes) {
  const image::Labels labels =
      image::Labels::load(HYDRASCOPE_SOURCE_DIR "/assets/labels/imagenet1k.txt");
  const ClassGroups groups(labels);
  const auto index = [&](const char* name) { return labels.find_name(name).front(); };
  EXPECT_THAT(names(groups, index("kite")), ElementsAre("bird of prey", "bird"));
  EXPECT_THAT(names(groups, index("tabby")), ElementsAre("domestic cat", "cat", "feline"));
  EXPECT_THAT(names(groups, index("traffic light")), IsEmpty());
  for (const char* scene : {"alp", "lakeside", "dam", "library"})
    EXPECT_TRUE(groups.is_scene(index(scene))) << scene;
  for (const char* thing : {"kite", "church", "castle"})
    EXPECT_FALSE(groups.is_scene(index(thing))) << thing;
  for (std::int64_t i = 0; i < 1000; ++i) {
    std::vector<std::int64_t> before{i};
    for (const std::size_t place : groups.chain(i)) {
      const std::vector<std::int64_t>& classes = groups.groups()[place].classes;
      EXPECT_GE(classes.size(), std::max<std::size_t>(3, before.size() + 1)) << i;
      EXPECT_LE(classes.size(), 150U) << i;
      EXPECT_TRUE(std::ranges::includes(classes, before)) << i;
      before = classes;
    }
  }
}

TEST(ClassGroupsTest, OtherLabelsHaveGroupsOfSomeOfTheirClasses) {
  const ClassGroups groups(kFour);
  EXPECT_THAT(names(groups, 0), ElementsAre("bird of prey", "bird"));
  EXPECT_THAT(names(groups, 2), ElementsAre("bird"));
  EXPECT_THAT(names(groups, 3), IsEmpty()) << "groups of one class";
  EXPECT_THAT(groups.groups()[1].classes, ElementsAre(0, 1, 2));
  const auto parse = [](const char* text) { return image::Labels::parse(text, "test"); };
  const ClassGroups same(parse("n02123045 tabby\nn01614925 bald eagle\nn01608432 kite\n"));
  EXPECT_THAT(names(same, 1), ElementsAre("bird of prey")) << "`bird` has the same classes";
  EXPECT_THAT(ClassGroups(parse("n01614925 bald eagle\nn01608432 kite\n")).groups(), IsEmpty());
}

TEST(ClassGroupsTest, LabelsWithoutIdsHaveNone) {
  const ClassGroups groups(image::Labels::parse("kite\nbald eagle\nalp\n", "test"));
  EXPECT_THAT(groups.groups(), IsEmpty());
  EXPECT_THAT(groups.chain(0), IsEmpty());
  EXPECT_FALSE(groups.is_scene(2));
  EXPECT_EQ(groups.answer(std::array{0.5, 0.5, 0.0}, 0, 0), std::nullopt);
}

TEST(ClassGroupsTest, TheNearestGroupThatIsSureEnoughAnswers) {
  const ClassGroups groups(kFour);
  const auto answer = [&](std::array<double, 4> probabilities, std::int64_t first, double least) {
    return groups.answer(probabilities, first, least).value_or(GroupAnswer{}).name;
  };
  EXPECT_EQ(answer({0.3, 0.1, 0.35, 0.25}, 0, 0.3), "bird of prey");
  EXPECT_EQ(answer({0.3, 0.1, 0.35, 0.25}, 0, 0.5), "bird");
  EXPECT_EQ(answer({0.3, 0.1, 0.35, 0.25}, 0, 0.8), "");
  EXPECT_EQ(answer({0.3, 0.1, 0.35, 0.25}, 2, 0.3), "bird");
  EXPECT_EQ(answer({0.5, 0.04, 0.06, 0.4}, 0, 0.3), "bird") << "0.04 more is no gain";
  EXPECT_EQ(answer({0.5, 0.02, 0.02, 0.46}, 0, 0.3), "");
  EXPECT_EQ(answer({0.1, 0.1, 0.1, 0.7}, 3, 0), "");
  EXPECT_NEAR(groups.answer(std::array{0.3, 0.1, 0.35, 0.25}, 0, 0.5)->probability, 0.75, 1e-12);
  EXPECT_EQ(groups.answer(std::array{0.5, 0.5}, 0, 0), std::nullopt) << "other classes";
}

}  // namespace class_groups_test
}  // namespace hydrascope::app
