#include "model/training/data/batch_loader.h"
#include "model/training/data/training_set.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

namespace hydrascope::model::training {
namespace sampler_test {

using Positions = std::vector<std::int64_t>;

std::vector<TrainingPicture> pictures(int count, int of_second_source = 0) {
  std::vector<TrainingPicture> all(count);
  for (int i = count - of_second_source; i < count; ++i) all[i].source = 1;
  return all;
}

Positions epoch_of(Sampler& sampler, std::int64_t epoch) {
  Positions all;
  for (std::int64_t i = 0; i < sampler.batches_per_epoch(); ++i) {
    const Positions batch = sampler.batch(epoch, i);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(Sampler, DrawsEachPictureOnceAnEpoch) {
  Sampler sampler(pictures(103), {.batch_size = 10});
  EXPECT_EQ(sampler.batches_per_epoch(), 10);
  const Positions first = epoch_of(sampler, 0);
  const Positions second = epoch_of(sampler, 1);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 100);
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch_of(sampler, 0), first);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(Sampler, SeedDecides) {
  Sampler a(pictures(50), {.batch_size = 10, .seed = 1});
  Sampler same(pictures(50), {.batch_size = 10, .seed = 1});
  Sampler other(pictures(50), {.batch_size = 10, .seed = 2});
  EXPECT_EQ(a.batch(3, 2), same.batch(3, 2));
  EXPECT_NE(a.batch(3, 2), other.batch(3, 2));
}

TEST(Sampler, RanksShareTheBatchOfOneProcess) {
  Sampler whole(pictures(70), {.batch_size = 12});
  for (std::int64_t index = 0; index < whole.batches_per_epoch(); ++index) {
    Positions together;
    for (int rank = 0; rank < 3; ++rank) {
      Sampler part(pictures(70), {.batch_size = 4, .rank = rank, .world_size = 3});
      EXPECT_EQ(part.batches_per_epoch(), whole.batches_per_epoch());
      EXPECT_EQ(part.position(index, 1), whole.position(index, rank * 4 + 1));
      const Positions batch = part.batch(2, index);
      together.insert(together.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(together, whole.batch(2, index));
  }
}

TEST(Sampler, BalancesSources) {
  Sampler sampler(pictures(103, 7), {.batch_size = 10, .balance_sources = true});
  const Positions all = epoch_of(sampler, 4);
  ASSERT_EQ(all.size(), 100);
  std::map<std::int64_t, int> counts;
  int of_small_source = 0;
  for (const std::int64_t position : all) {
    ++counts[position];
    of_small_source += position >= 96 ? 1 : 0;
  }
  EXPECT_EQ(of_small_source, 50);
  for (const auto& [position, count] : counts) {
    if (position < 96) {
      EXPECT_EQ(count, 1);
    } else {
      EXPECT_TRUE(count == 7 || count == 8) << count;  // 50 draws of 7 pictures
    }
  }
  // Sources are mixed within a batch, not one behind the other.
  EXPECT_FALSE(std::all_of(all.begin(), all.begin() + 20, [](auto p) { return p < 96; }));
}

TEST(Sampler, AnEpochMayBeShorterOrLongerThanTheSet) {
  Sampler longer(pictures(5), {.batch_size = 4, .batches_per_epoch = 5});
  std::map<std::int64_t, int> counts;
  for (const std::int64_t position : epoch_of(longer, 0)) ++counts[position];
  ASSERT_EQ(counts.size(), 5);
  for (const auto& [position, count] : counts) EXPECT_EQ(count, 4);

  Sampler shorter(pictures(50), {.batch_size = 4, .batches_per_epoch = 2});
  EXPECT_EQ(epoch_of(shorter, 0).size(), 8);
  Sampler small(pictures(3), {.batch_size = 8});
  EXPECT_EQ(small.batches_per_epoch(), 1);
  EXPECT_EQ(small.batch(0, 0).size(), 8);
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(Sampler({}, {}), invalid_argument, "no pictures");
  EXPECT_ERROR(Sampler(pictures(3), {.batch_size = 0}), invalid_argument, "batch size");
  EXPECT_ERROR(Sampler(pictures(3), {.rank = 2, .world_size = 2}), invalid_argument, "rank");
  Sampler sampler(pictures(20), {.batch_size = 10});
  EXPECT_ERROR(sampler.batch(0, 2), invalid_argument, "batch 2");
}

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

}  // namespace sampler_test
}  // namespace hydrascope::model::training
