#include "model/training/data/training_set.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace hydrascope::model::training {
namespace training_set_test {

std::vector<TrainingPicture> numbered(const std::string& folder, int count) {
  std::vector<TrainingPicture> pictures;
  for (int i = 0; i < count; ++i)
    pictures.push_back({.file = folder + "/" + std::to_string(i) + ".jpg", .target = i});
  return pictures;
}

std::set<std::int64_t> targets(const std::vector<TrainingPicture>& pictures) {
  std::set<std::int64_t> all;
  for (const TrainingPicture& picture : pictures) all.insert(picture.target);
  return all;
}

TEST(HoldOut, SplitsWithoutLoss) {
  const Split split = hold_out(numbered("/set/cats", 1000), 0.1, 7);
  EXPECT_NEAR(static_cast<double>(split.held_out.size()), 100, 40);
  std::set<std::int64_t> all = targets(split.training);
  for (const std::int64_t target : targets(split.held_out))
    EXPECT_TRUE(all.insert(target).second) << target << " is on both sides";
  EXPECT_EQ(all.size(), 1000);
}

TEST(HoldOut, ChoosesAPictureWhateverElseThereIsAndWhereverItLies) {
  const Split whole = hold_out(numbered("/set/cats", 200), 0.2, 7);
  const Split moved = hold_out(numbered("/elsewhere/deeper/cats", 200), 0.2, 7);
  EXPECT_EQ(targets(whole.held_out), targets(moved.held_out));

  const Split half = hold_out(numbered("/set/cats", 100), 0.2, 7);
  std::set<std::int64_t> first_half;
  for (const std::int64_t target : targets(whole.held_out))
    if (target < 100) first_half.insert(target);
  EXPECT_EQ(targets(half.held_out), first_half);
}

TEST(HoldOut, DependsOnSeedAndFolder) {
  const auto held_out = [](const std::string& folder, std::uint64_t seed) {
    return targets(hold_out(numbered(folder, 200), 0.2, seed).held_out);
  };
  EXPECT_NE(held_out("/set/cats", 7), held_out("/set/cats", 8));
  EXPECT_NE(held_out("/set/cats", 7), held_out("/set/dogs", 7));
}

TEST(HoldOut, LeavesNeitherSideEmpty) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const double share : {0.001, 0.999}) {
      const Split split = hold_out(numbered("/set/cats", 2), share, seed);
      EXPECT_EQ(split.training.size(), 1);
      EXPECT_EQ(split.held_out.size(), 1);
    }
  }
  EXPECT_EQ(hold_out(numbered("/set/cats", 1), 0.9, 1).training.size(), 1);
  EXPECT_TRUE(hold_out(numbered("/set/cats", 50), 0, 1).held_out.empty());
  EXPECT_ERROR(hold_out(numbered("/set/cats", 5), 1.0, 1), invalid_argument, "share");
}

TEST(ParseRandAugment, ReadsTimmsNotation) {
  const RandAugmentOptions options = parse_rand_augment("rand-m7-n3-mstd0.5-inc1-p0.25");
  EXPECT_EQ(options.magnitude, 7);
  EXPECT_EQ(options.operations, 3);
  EXPECT_EQ(options.magnitude_std, 0.5);
  EXPECT_TRUE(options.increasing);
  EXPECT_EQ(options.probability, 0.25);
}

TEST(ParseRandAugment, LeavesUnsaidWhatTimmDoes) {
  const RandAugmentOptions options = parse_rand_augment("rand");
  EXPECT_EQ(options.magnitude, 10);
  EXPECT_EQ(options.operations, 2);
  EXPECT_EQ(options.magnitude_std, 0);
  EXPECT_FALSE(options.increasing);
  EXPECT_EQ(options.probability, 0.5);
  EXPECT_TRUE(std::isinf(parse_rand_augment("rand-mstd101").magnitude_std));
  EXPECT_EQ(parse_rand_augment("").operations, 0);
  EXPECT_EQ(parse_rand_augment("none").operations, 0);
}

TEST(ParseRandAugment, RefusesWhatItDoesNotKnow) {
  EXPECT_ERROR(parse_rand_augment("augmix-m5"), invalid_argument, "augmix-m5", "rand-m9");
  EXPECT_ERROR(parse_rand_augment("rand-m9-w0"), invalid_argument, "w0");
  EXPECT_ERROR(parse_rand_augment("rand-m"), invalid_argument, "without sense: m");
  EXPECT_ERROR(parse_rand_augment("rand-m11"), invalid_argument, "m11");
  EXPECT_ERROR(parse_rand_augment("rand-m9x"), invalid_argument, "m9x");
  EXPECT_ERROR(parse_rand_augment("rand-n1.5"), invalid_argument, "integer");
  EXPECT_ERROR(parse_rand_augment("rand--m9"), invalid_argument, "unknown");
}

}  // namespace training_set_test
}  // namespace hydrascope::model::training
