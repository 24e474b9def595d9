#include "model/inference/cpu/tile_shape.h"

#include "model/inference/cpu/product_cut.h"
#include "model/inference/cpu/token_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

TEST(TileShapeTest, CoversAllTokensWithEvenMultiplesOfSix) {
  for (const std::int64_t tokens : {1, 5, 6, 7, 197, 198, 577, 8161, 32401}) {
    for (const std::int64_t batch : {1, 2, 32}) {
      for (const int threads : {1, 2, 3, 64}) {
        for (const std::int64_t row_bytes : {100, 2304, 9216, 40000}) {
          const TileShape shape = choose_tiles(tokens, batch, row_bytes, 1 << 20, threads);
          EXPECT_EQ(shape.rows % 6, 0);
          EXPECT_GE(shape.rows * shape.count, tokens);
          EXPECT_LT(shape.rows * (shape.count - 1), tokens) << "no empty tile";
        }
      }
    }
  }
}

TEST(TileShapeTest, FollowsTheCache) {
  const TileShape small = choose_tiles(8161, 1, 2304, 1 << 20, 2);
  const TileShape large = choose_tiles(8161, 1, 2304, 2 << 20, 2);
  EXPECT_LE(small.rows * 2304, (1 << 20) / 3 + 6 * 2304);
  EXPECT_GT(large.rows, small.rows);
}

TEST(TileShapeTest, OneSmallImageOccupiesAllThreads) {
  EXPECT_EQ(choose_tiles(197, 1, 2304, 1 << 20, 2).count, 2);
  EXPECT_EQ(choose_tiles(197, 1, 2304, 1 << 20, 4).count, 4);
  EXPECT_EQ(choose_tiles(197, 32, 2304, 4 << 20, 4).count, 1) << "the batch does";
}

TEST(TileShapeTest, FewTilesAreAMultipleOfTheThreads) {
  const auto busiest = [](std::int64_t tokens, std::int64_t batch, int threads) {
    const TileShape shape = choose_tiles(tokens, batch, 18432, 1 << 20, threads);
    const std::int64_t rounds = divide_up(batch * shape.count, threads);
    return static_cast<double>(rounds * shape.rows * threads) / static_cast<double>(tokens * batch);
  };
  // 62 tiles of 132 rows are two rounds on 56 threads, 105 of 78 rows too; 55 of 150 are one.
  EXPECT_EQ(choose_tiles(8161, 1, 18432, 1 << 20, 56).rows, 150);
  for (const int threads : {2, 8, 16, 32, 48, 56, 64, 96, 128})
    EXPECT_LT(busiest(8161, 1, threads), 1.07) << threads;
  for (const int threads : {2, 8, 16, 32, 64, 128})
    EXPECT_LT(busiest(197, 64, threads), 1.07) << threads;
}

TEST(TileShapeTest, TilesEndWhereWindowsEnd) {
  // Windows of 169 to 196 patches, an overview of 350: one each.
  Borders windows{0};
  for (int i = 0; i < 45; ++i) windows.push_back(windows.back() + 169 + 13 * (i % 3) + i % 3 / 2);
  windows.push_back(windows.back() + 350);
  EXPECT_EQ(window_borders(windows, {150, 57}, 1, 2), windows);
  EXPECT_EQ(window_borders({0, 196, 392, 742}, {150, 5}, 1, 2), (Borders{0, 196, 392, 742}))
      << "the overview comes first: 392 rows on one thread, 350 on the other";

  EXPECT_EQ(window_borders({0, 49, 98, 147, 196, 245}, {150, 2}, 8, 1), (Borders{0, 147, 245}))
      << "small ones share a tile";
  EXPECT_EQ(window_borders({0, 196, 392, 588}, {120, 5}, 1, 2),
            (Borders{0, 102, 196, 298, 392, 494, 588}))
      << "three windows on two threads are cut";
  EXPECT_EQ(window_borders({0, 600}, {150, 4}, 1, 4), (Borders{0, 150, 300, 450, 600}));
  EXPECT_EQ(window_borders({0, 144, 288, 432}, {108, 4}, 1, 4), (Borders{0, 108, 216, 324, 432}))
      << "three windows would leave a thread idle";
}

TEST(TileShapeTest, WindowsTilesAreNeitherEmptyNorMuchLargerThanOthers) {
  for (const std::int64_t size : {1, 5, 49, 169, 196, 350, 5000}) {
    for (const std::int64_t count : {1, 2, 7, 50}) {
      for (const std::int64_t rows : {6, 48, 150, 384}) {
        for (const int threads : {1, 3, 64}) {
          Borders windows{0};
          for (std::int64_t i = 0; i < count; ++i) windows.push_back(windows.back() + size);
          const Borders tiles = window_borders(windows, {rows, 0}, 1, threads);
          ASSERT_EQ(tiles.front(), 0);
          ASSERT_EQ(tiles.back(), windows.back());
          for (std::size_t i = 0; i + 1 < tiles.size(); ++i) {
            ASSERT_GT(tiles[i + 1], tiles[i]);
            ASSERT_LT(tiles[i + 1] - tiles[i], std::max<std::int64_t>(385, rows * 3 / 2 + 6));
          }
        }
      }
    }
  }
}

TEST(TileShapeTest, MatrixTilesAreWholePairsUnlessThatDelaysAThread) {
  for (const std::int64_t tokens : {1, 5, 47, 48, 49, 197, 198, 577, 8161, 32401}) {
    for (const std::int64_t batch : {1, 2, 32}) {
      for (const int threads : {1, 2, 3, 64}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens, batch " + std::to_string(batch) + ", " +
                     std::to_string(threads) + " threads");
        const TileShape strips = choose_tiles(tokens, batch, 2304, 1 << 20, threads);
        const TileShape shape =
            choose_tiles(tokens, batch, 2304, 1 << 20, threads, kMatrixTileRows);
        EXPECT_TRUE(shape.rows % 96 == 0 || shape.rows == strips.rows);
        EXPECT_GE(shape.rows * shape.count, tokens);
        EXPECT_LT(shape.rows * (shape.count - 1), tokens) << "no empty tile";
      }
    }
  }
  const auto rows = [](std::int64_t tokens, std::int64_t batch, int threads) {
    return choose_tiles(tokens, batch, 2304, 1 << 20, threads, kMatrixTileRows).rows;
  };
  EXPECT_EQ(rows(8161, 32, 2), 192);
  EXPECT_EQ(rows(197, 32, 2), 102) << "the weights would pass for 5 rows behind 192";
  EXPECT_EQ(rows(577, 1, 1), 150) << "and here for one";
  EXPECT_EQ(rows(577, 1, 2), 150) << "with 192 one thread would have 384 rows, with 150 320";
  EXPECT_EQ(rows(197, 1, 4), 54) << "three tiles of 96 would leave a thread idle";
}

// ---- products that are cut by outputs

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

// ---- the order of tokens

/// The patch of every token; runs lie one behind the other.
std::vector<std::int64_t> patches_of(const TokenOrder& order) {
  std::vector<std::int64_t> patches;
  for (const TokenOrder::Run& run : order.runs) {
    EXPECT_EQ(run.token, std::ssize(patches));
    for (std::int64_t i = 0; i < run.count; ++i) patches.push_back(run.patch + i);
  }
  return patches;
}

TEST(TokenOrderTest, WindowAfterWindowThenTheOverview) {
  // Rows 2 + 3, columns 2 + 2 + 3.
  const TokenOrder order = token_order({1, 5, 7, 1, 2}, {3, 3});
  EXPECT_EQ(order.windows, (std::vector<std::int64_t>{0, 4, 8, 14, 20, 26, 35, 37}));
  EXPECT_EQ(patches_of(order), (std::vector<std::int64_t>{0,  1,  7,  8,                       //
                                                          2,  3,  9,  10,                      //
                                                          4,  5,  6,  11, 12, 13,              //
                                                          14, 15, 21, 22, 28, 29,              //
                                                          16, 17, 23, 24, 30, 31,              //
                                                          18, 19, 20, 25, 26, 27, 32, 33, 34,  //
                                                          35, 36}));
}

TEST(TokenOrderTest, OneWindowIsRowMajorAndOneRun) {
  const TokenOrder order = token_order({1, 5, 7, 2, 3}, {9, 7});
  EXPECT_EQ(order.windows, (std::vector<std::int64_t>{0, 35, 41}));
  ASSERT_EQ(order.runs.size(), 2U) << "the picture's and the overview's";
  EXPECT_EQ(order.runs[0].count, 35);
  EXPECT_EQ(order.runs[1].patch, 35);
  EXPECT_EQ(token_order({0, 1, 1}, {1, 1}).windows, (std::vector<std::int64_t>{0, 1}));
}

TEST(TokenOrderTest, EveryPatchOnce) {
  for (const TokenGrid& grid : {TokenGrid{1, 13, 17}, TokenGrid{1, 68, 120, 14, 25}}) {
    for (const GridExtent& window : {GridExtent{1, 1}, GridExtent{14, 14}, GridExtent{5, 100}}) {
      std::vector<std::int64_t> patches = patches_of(token_order(grid, window));
      std::ranges::sort(patches);
      std::vector<std::int64_t> all(static_cast<std::size_t>(grid.num_image_tokens()));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(patches, all);
    }
  }
}

}  // namespace
}  // namespace hydrascope::model::inference
