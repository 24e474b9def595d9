// Against the prototype of docs/notes/look: scripts/make/make_look_goldens.py has the same formulas.
#include "model/look/gate.h"
#include "model/look/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::look {
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

TEST(Look, FindsAndAnswersAsThePrototype) {
  const Json goldens = Json::parse(std::ifstream(HYDRASCOPE_SOURCE_DIR "/tests/data/look.json"));
  ASSERT_EQ(goldens.size(), 2U);
  for (const auto& [name, golden] : goldens.items()) {
    SCOPED_TRACE(name);
    const AttentionMap map = map_of(golden);
    const std::int64_t width = 16 * map.columns;
    const std::int64_t height = 16 * map.rows;
    const Places places = find_places(map, width, height);
    ASSERT_TRUE(places.thing);
    expect_box(*places.thing, golden["thing"]);
    ASSERT_EQ(places.looks.size(), golden["looks"].size());
    std::vector<std::vector<float>> logits;
    for (std::size_t i = 0; i < places.looks.size(); ++i) {
      expect_box(places.looks[i].area, golden["looks"][i]);
      EXPECT_EQ(places.looks[i].of_whole, i + 2 >= places.looks.size());
      logits.push_back(logits_of(1 + static_cast<int>(i)));
    }
    const std::vector<std::span<const float>> rows(logits.begin(), logits.end());
    const Mixture mixture = mix(map, width, height, places.looks, rows, logits_of(0));
    ASSERT_EQ(mixture.weights.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_NEAR(mixture.weights[i], golden["weights"][i].get<double>(), 1e-5);
    ASSERT_EQ(mixture.probabilities.size(), std::size_t{kClasses});
    for (std::size_t i = 0; i < kClasses; ++i)
      EXPECT_NEAR(mixture.probabilities[i], golden["probabilities"][i].get<double>(), 1e-5);
  }
}

TEST(Look, StaysWithinAPictureThatEndsInAPatch) {
  AttentionMap map{2, 3, 16, {0.1, 0.1, 0.1, 0.1, 0.1, 0.5}};
  const Places places = find_places(map, 40, 23);
  ASSERT_TRUE(places.thing);
  std::vector<Area> areas{*places.thing};
  for (const Look& look : places.looks) areas.push_back(look.area);
  for (const Area& area : areas) {
    EXPECT_GE(area.left, 0);
    EXPECT_GE(area.top, 0);
    EXPECT_GT(area.width, 0);
    EXPECT_GT(area.height, 0);
    EXPECT_LE(area.left + area.width, 40);
    EXPECT_LE(area.top + area.height, 23);
  }
}

TEST(Look, FindsNoThingInAnEmptyMap) {
  EXPECT_FALSE(find_places({2, 3, 16, std::vector<double>(6)}, 48, 32).thing);
}

TEST(Look, IsAtAThingThatItSeesOrLiesIn) {
  const Area thing{100, 100, 200, 200};
  EXPECT_TRUE(is_at({90, 90, 220, 220}, thing));
  EXPECT_TRUE(is_at({60, 60, 320, 320}, thing)) << "0.39 of the union";
  EXPECT_TRUE(is_at({150, 150, 50, 50}, thing)) << "a part";
  EXPECT_TRUE(is_at({250, 150, 90, 90}, thing)) << "mostly a part";
  EXPECT_FALSE(is_at({0, 0, 400, 400}, thing)) << "a quarter";
  EXPECT_FALSE(is_at({0, 0, 1920, 1088}, thing)) << "the whole picture";
  EXPECT_FALSE(is_at({280, 150, 90, 90}, thing));
}

TEST(Look, SumsPartsOfCells) {
  const MapSums sums(AttentionMap{2, 2, 10, {0.1, 0.2, 0.3, 0.4}});
  EXPECT_NEAR(sums.within({0, 0, 20, 20}), 1, 1e-12);
  EXPECT_NEAR(sums.within({5, 0, 10, 5}), 0.25 * 0.1 + 0.25 * 0.2, 1e-12);
  EXPECT_NEAR(sums.within({-100, -100, 105, 200}), 0.5 * 0.1 + 0.5 * 0.3, 1e-12);
}

TEST(Look, AMixtureOfSomeLooksIsADistribution) {
  const Mixture mixture{{0.75, 0.25}, {{1, 0}, {0.2, 0.8}}, {0.8, 0.2}};
  const std::vector<std::size_t> second{1};
  EXPECT_EQ(mixture.of(second), (std::vector<double>{0.2, 0.8}));
  EXPECT_TRUE(mixture.of({}).empty());
}

TEST(Look, APassThatIsSurerThanTheLooksIsHeardAsMuchAsThey) {
  const std::vector<float> pass{std::log(0.6F) + 3, std::log(0.3F) + 3, std::log(0.1F) + 3};
  const std::vector<double> unsure{0.2, 0.3, 0.5};
  const std::vector<double> heard = heard_with(pass, unsure);
  EXPECT_NEAR(heard[0], 0.4, 1e-6);
  EXPECT_NEAR(heard[1], 0.3, 1e-6);
  EXPECT_NEAR(heard[2], 0.3, 1e-6);
  const std::vector<double> surer{0.1, 0.25, 0.65};
  EXPECT_EQ(heard_with(pass, surer), surer);
}

TEST(Look, NotANumberStays) {
  const Mixture mixture{{std::nan("")}, {{0.5, 0.5}}, {}};
  const std::vector<std::size_t> first{0};
  for (const double probability : mixture.of(first)) EXPECT_TRUE(std::isnan(probability));
}

}  // namespace
}  // namespace hydrascope::look
