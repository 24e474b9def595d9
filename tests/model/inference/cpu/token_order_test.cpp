#include "model/inference/cpu/token_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace hydrascope::model::inference {
namespace token_order_test {

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

}  // namespace token_order_test
}  // namespace hydrascope::model::inference
