#include "model/inference/cpu/product_cut.h"

#include "model/inference/cpu/tile_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace product_cut_test {

TEST(ProductCutTest, PartsCoverEveryRowOfEveryPanelOnce) {
  for (const std::int64_t rows : {1, 5, 6, 197, 394, 8161}) {
    for (const std::int64_t panels : {1, 9, 36}) {
      for (const int threads : {1, 2, 7, 64, 128}) {
        for (const std::int64_t unit : {6, 32}) {
          const ProductCut cut(rows, panels, threads, unit);
          std::vector<int> times(static_cast<std::size_t>(rows * panels));
          for (std::int64_t index = 0; index < cut.count(); ++index) {
            const ProductCut::Part part = cut.part(index);
            ASSERT_GT(part.rows, 0);
            ASSERT_LE(part.rows, kMostPartRows);
            ASSERT_GT(part.panels, 0);
            ASSERT_EQ(part.first_row % unit, 0);
            for (std::int64_t row = part.first_row; row < part.first_row + part.rows; ++row)
              for (std::int64_t p = part.first_panel; p < part.first_panel + part.panels; ++p)
                ++times[static_cast<std::size_t>(row * panels + p)];
          }
          EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; }));
        }
      }
    }
  }
}

/// The times of a block of a vision transformer so wide.
CutTimes times_of_prefix(std::int64_t dim, int threads) {
  const std::int64_t panels = dim / 64;
  const std::pair<std::int64_t, std::int64_t> products[] = {
      {3 * panels, dim}, {panels, dim}, {4 * panels, dim}, {panels, 4 * dim}};
  CutTimes times;
  times.add_block(products, dim, 1 + kWeightRows,
                  [&](std::int64_t outputs) { return ProductCut(1, outputs, threads, 1).time(); });
  return times;
}

TEST(ProductCutTest, AClassTokenIsCutWhereItsWeightsTakeLongerThanMeetings) {
  for (const int threads : {2, 8, 64}) {
    EXPECT_FALSE(times_of_prefix(64, threads).is_sooner_cut()) << threads;
    EXPECT_FALSE(times_of_prefix(192, threads).is_sooner_cut()) << threads;
    EXPECT_TRUE(times_of_prefix(384, threads).is_sooner_cut()) << threads;
    EXPECT_TRUE(times_of_prefix(768, threads).is_sooner_cut()) << threads;
  }
  const CutTimes one = times_of_prefix(768, 1);
  EXPECT_GT(one.by_outputs, one.by_tiles);
}

TEST(ProductCutTest, AnImageOf224PixelsOccupiesManyThreadsAndFewOfThemReadAWeight) {
  constexpr std::int64_t kTokens = 197;
  for (const int threads : {8, 16, 32, 64, 128}) {
    for (const std::int64_t panels : {12, 36, 48}) {  // of proj and fc2, of qkv, of fc1 in ViT-B
      SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(panels) + " panels");
      const ProductCut cut(kTokens, panels, threads, 6);
      const double work = static_cast<double>(kTokens * panels);
      EXPECT_GT(work / (threads * cut.time()), threads <= 64 ? 0.78 : 0.6);
      EXPECT_LE(cut.row_parts(), threads <= 64 ? 7 : 11);
    }
  }
  EXPECT_EQ(ProductCut(1, 12, 64, 6).count(), 12) << "a class token alone: a panel each";
  EXPECT_EQ(ProductCut(0, 12, 64, 6).count(), 0);
}

TEST(ProductCutTest, OutputsBehindAnotherProduct) {
  const ProductCut::Part part{0, 6, 10, 4};
  EXPECT_EQ(part.outputs().first, 640);
  EXPECT_EQ(part.outputs().end_of(1000), 896);
  EXPECT_EQ(part.outputs(12).first, 0);
  EXPECT_EQ(part.outputs(12).end_of(1000), 128);
  EXPECT_EQ(part.outputs(20).end_of(1000), 0);
}

TEST(ProductCutTest, HeadsAreGroupedSoThatNoThreadWaits) {
  EXPECT_EQ(head_groups(1, 12, 1), 1);
  EXPECT_EQ(head_groups(5, 12, 64), 12);
  EXPECT_EQ(head_groups(2, 12, 4), 2);
  EXPECT_EQ(head_groups(128, 12, 64), 1);
}

}  // namespace product_cut_test
}  // namespace hydrascope::model::inference
