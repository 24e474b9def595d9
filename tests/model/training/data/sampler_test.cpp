#include "model/training/data/batch_loader.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

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

}  // namespace sampler_test
}  // namespace hydrascope::model::training
