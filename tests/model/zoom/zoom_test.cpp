// Against the prototype of docs/notes/zoom: scripts/make/make_zoom_goldens.py has the same formulas.
#include "model/zoom/gate.h"
#include "model/zoom/views.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::zoom {
namespace {

using Json = nlohmann::json;

constexpr int kClasses = 7;

AttentionMap map_of(const Json& golden) {
  AttentionMap map{golden["rows"], golden["columns"]};
  for (std::int64_t i = 0; i < map.rows; ++i) {
    for (std::int64_t j = 0; j < map.columns; ++j) {
      const auto row = static_cast<double>(i);
      const auto column = static_cast<double>(j);
      double value = 0.02 * (1 + 0.5 * std::sin(1.3 * row + 0.1 * row * column));
      for (const Json& spot : golden["spots"]) {
        const double down = row - spot[0].get<double>();
        const double across = column - spot[1].get<double>();
        const double breadth = spot[2];
        value += spot[3].get<double>() *
                 std::exp(-(down * down + across * across) / (2 * breadth * breadth));
      }
      map.values.push_back(value);
    }
  }
  const double sum = std::accumulate(map.values.begin(), map.values.end(), 0.0);
  for (double& value : map.values) value /= sum;
  return map;
}

std::vector<float> logits_of(int number) {
  std::vector<float> logits;
  for (int i = 0; i < kClasses; ++i)
    logits.push_back(
        static_cast<float>(4 + 4 * std::sin(1.7 * number + 2.9 * i + 0.31 * number * i)));
  return logits;
}

void expect_box(const Area& found, const Json& wanted) {
  EXPECT_NEAR(found.left, wanted[0].get<double>(), 1e-4);
  EXPECT_NEAR(found.top, wanted[1].get<double>(), 1e-4);
  EXPECT_NEAR(found.width, wanted[2].get<double>(), 1e-4);
  EXPECT_NEAR(found.height, wanted[3].get<double>(), 1e-4);
}

TEST(Zoom, FindsAndAnswersAsThePrototype) {
  const Json goldens = Json::parse(std::ifstream(HYDRASCOPE_SOURCE_DIR "/tests/data/zoom.json"));
  ASSERT_EQ(goldens.size(), 2U);
  for (const auto& [name, golden] : goldens.items()) {
    SCOPED_TRACE(name);
    const AttentionMap map = map_of(golden);
    const std::int64_t width = 16 * map.columns;
    const std::int64_t height = 16 * map.rows;
    const std::vector<View> views = find_views(map, width, height);
    ASSERT_EQ(views.size(), golden["views"].size());
    std::vector<std::vector<float>> logits;
    for (std::size_t i = 0; i < views.size(); ++i) {
      expect_box(views[i].area, golden["views"][i]);
      EXPECT_EQ(views[i].of_whole, i + 2 >= views.size());
      logits.push_back(logits_of(1 + static_cast<int>(i)));
    }
    const std::vector<std::span<const float>> rows(logits.begin(), logits.end());
    const Mixture mixture = mix(map, width, height, views, rows);
    ASSERT_EQ(mixture.weights.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_NEAR(mixture.weights[i], golden["weights"][i].get<double>(), 1e-5);
    ASSERT_EQ(mixture.probabilities.size(), std::size_t{kClasses});
    for (std::size_t i = 0; i < kClasses; ++i)
      EXPECT_NEAR(mixture.probabilities[i], golden["probabilities"][i].get<double>(), 1e-5);
  }
}

TEST(Zoom, StaysWithinAPictureThatEndsInAPatch) {
  AttentionMap map{2, 3, 16, {0.1, 0.1, 0.1, 0.1, 0.1, 0.5}};
  for (const auto& [area, of_whole] : find_views(map, 40, 23)) {
    EXPECT_GE(area.left, 0);
    EXPECT_GE(area.top, 0);
    EXPECT_GT(area.width, 0);
    EXPECT_GT(area.height, 0);
    EXPECT_LE(area.left + area.width, 40);
    EXPECT_LE(area.top + area.height, 23);
  }
}

TEST(Zoom, SumsPartsOfCells) {
  const MapSums sums(AttentionMap{2, 2, 10, {0.1, 0.2, 0.3, 0.4}});
  EXPECT_NEAR(sums.within({0, 0, 20, 20}), 1, 1e-12);
  EXPECT_NEAR(sums.within({5, 0, 10, 5}), 0.25 * 0.1 + 0.25 * 0.2, 1e-12);
  EXPECT_NEAR(sums.within({-100, -100, 105, 200}), 0.5 * 0.1 + 0.5 * 0.3, 1e-12);
}

TEST(Zoom, BringsTheWholeAndTheDensestViewsForward) {
  AttentionMap map{4, 6, 272, std::vector<double>(24)};
  map.values[9] = 1;
  std::vector<View> views = find_views(map, 1632, 1088);
  const std::size_t count = views.size();
  bring_forward(map, 1632, 1088, views, 8);
  ASSERT_EQ(views.size(), count);
  EXPECT_EQ(std::ranges::count_if(std::span(views).first(8), &View::of_whole), 2);
}

TEST(Zoom, EvidenceIsDensestWhereVotesLieOverEachOther) {
  const std::vector<Area> areas{{0, 0, 100, 100}, {40, 60, 20, 20}, {50, 50, 20, 20}};
  const std::optional<Point> point = densest_point(areas, std::vector<double>{0.2, 0.4, 0.4});
  ASSERT_TRUE(point);
  EXPECT_EQ(point->x, 55);
  EXPECT_EQ(point->y, 65);
  const std::optional<Point> surest = densest_point(areas, std::vector<double>{0.9, 0.0, 0.1});
  ASSERT_TRUE(surest);
  EXPECT_TRUE(surest->x > 50 && surest->x < 70 && surest->y > 50 && surest->y < 70);
  EXPECT_FALSE(densest_point(areas, std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace hydrascope::zoom
