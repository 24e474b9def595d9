#include "app/maps/map_choice.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace hydrascope::app {
namespace {

using Classes = std::vector<std::int64_t>;

const image::Labels& labels() {
  static const image::Labels loaded = image::Labels::parse(
      "n01440764 tench, Tinca tinca\nn02012849 crane\nn02444819 otter\nn03126707 crane\n"
      "n02442845 mink\n",
      "test");
  return loaded;
}

ClassChoice choice(const std::vector<std::string>& words, std::optional<std::int64_t> topk = {}) {
  return {words, topk, labels()};
}

TEST(ClassChoiceTest, WordsMeanClassesByTheRuleOfAll) {
  EXPECT_EQ(choice({"otter", "n01440764", "4"}).resolve(Classes{}, false), (Classes{2, 0, 4}));
  EXPECT_ERROR(choice({"oter"}), invalid_argument, "`class` oter", "did you mean otter");
}

TEST(ClassChoiceTest, WithoutWordsItIsThePrediction) {
  const ClassChoice one = choice({});
  EXPECT_TRUE(one.is_default());
  EXPECT_EQ(one.num_best(), 1);
  EXPECT_EQ(one.resolve(Classes{2}, false), (Classes{2}));
  EXPECT_TRUE(choice({"pred"}).is_default());
  EXPECT_FALSE(choice({"2"}).is_default());
  EXPECT_FALSE(choice({}, 2).is_default());
}

TEST(ClassChoiceTest, TopKGoesWithNamedClassesInTheOrderOfTheWords) {
  const ClassChoice best = choice({}, 3);
  EXPECT_EQ(best.num_best(), 3);
  EXPECT_EQ(best.resolve(Classes{2, 4, 0}, false), (Classes{2, 4, 0}));
  EXPECT_EQ(choice({"mink", "pred"}, 2).resolve(Classes{2, 0}, false), (Classes{4, 2, 0}));
  EXPECT_EQ(choice({"mink"}, 1).resolve(Classes{2}, false), (Classes{2, 4}));
  EXPECT_EQ(choice({"mink"}).resolve(Classes{2}, false), (Classes{4}));
  EXPECT_EQ(choice({}, 99).num_best(), 5) << "there are no more";
}

TEST(ClassChoiceTest, AClassNamedAndPredictedComesOnceUnlessTheirNumberMustStay) {
  const ClassChoice both = choice({"otter", "pred"});
  EXPECT_EQ(both.most_classes(), 2);
  EXPECT_EQ(both.resolve(Classes{2}, false), (Classes{2}));
  EXPECT_EQ(both.resolve(Classes{2}, true), (Classes{2, 2}));
}

}  // namespace
}  // namespace hydrascope::app
