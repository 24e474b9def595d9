#include "app/visualize/output_stage.h"

#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

TEST(OutputNamesTest, TheFileNameWithoutItsExtension) {
  OutputNames names;
  EXPECT_EQ(names.name_for("folder/otters.jpg"), "otters");
  EXPECT_EQ(names.name_for("a.b.png"), "a.b");
  EXPECT_EQ(names.name_for("no_extension"), "no_extension");
  EXPECT_EQ(names.name_for("-dash.png"), "-dash");
  EXPECT_EQ(names.name_for("caf\xc3\xa9.png"), "caf\xc3\xa9");
  EXPECT_EQ(names.name_for("broken\xff.png"), "broken\xff") << "any bytes";
}

TEST(OutputNamesTest, NoTwoInputsShareOne) {
  OutputNames names;
  EXPECT_EQ(names.name_for("a/x.jpg"), "x");
  EXPECT_EQ(names.name_for("b/x-2.jpg"), "x-2");
  EXPECT_EQ(names.name_for("b/x.png"), "x-3") << "x-2 is an input's own";
  EXPECT_EQ(names.name_for("c/x.png"), "x-4");
  EXPECT_EQ(names.name_for("c/x-2.png"), "x-2-2");
}

TEST(OutputNamesTest, LongNamesAreCutBetweenCharacters) {
  OutputNames names;
  const std::string longest = names.name_for(std::string(251, 'x') + ".png");
  EXPECT_EQ(longest, std::string(200, 'x'));
  std::string two_bytes = "x";
  while (two_bytes.size() < 250) two_bytes += "\xc3\xa9";
  EXPECT_EQ(names.name_for(two_bytes + ".png").size(), 199U);
  EXPECT_EQ(names.name_for(std::string(251, 'x') + ".jpg"), longest + "-2");
}

TEST(OutputNamesTest, NamesThatSayNothing) {
  OutputNames names;
  EXPECT_EQ(names.name_for(".."), "input");
  EXPECT_EQ(names.name_for(""), "input-2");
}

}  // namespace
}  // namespace hydrascope::app
