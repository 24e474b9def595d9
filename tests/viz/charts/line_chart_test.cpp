#include "viz/charts/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

namespace hydrascope::viz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(LineChartTest, PointsLieWhereTheyBelong) {
  LineChart chart{"loss <a>", "step", "loss", {{"one", {{0, 1}, {10, 3}}}}};
  const std::string svg = line_chart_svg(chart);
  // From 70 to 426 and from 238 up to 34, with a margin of 4 % of the data on each side.
  EXPECT_THAT(svg, HasSubstr("M83.2 230.4L412.8 41.6"));
  EXPECT_THAT(svg, HasSubstr("loss &lt;a&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<a>")));
  EXPECT_THAT(svg, HasSubstr("one: 3"));
  EXPECT_EQ(occurrences(svg, "<circle"), 2U);
}

TEST(LineChartTest, WhatIsNotFiniteIsAGap) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LineChart chart{"t", "x", "y", {{"one", {{0, 1}, {1, 1}, {2, nan}, {3, 2}, {4, 2}}}}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_EQ(occurrences(svg, "<circle"), 4U);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  const auto path = svg.find("<path d=\"M");
  ASSERT_NE(path, svg.npos);
  const std::string line = svg.substr(path + 9, svg.find('"', path + 9) - path - 9);
  EXPECT_EQ(occurrences(line, "M"), 2U);
}

TEST(LineChartTest, ValuesThatDifferByRoundingAreOne) {
  const std::string svg =
      line_chart_svg({"t", "x", "y", {{"one", {{0, 1}, {1, 1 + 1e-9}, {2, 1 - 1e-9}}}}});
  EXPECT_EQ(occurrences(svg, "cy=\"136.0\""), 3U) << "in the middle";
}

TEST(LineChartTest, BarsBeginAtZeroTheLongestFirst) {
  LineChart chart{
      "speed", "", "", {{"slow", {{1, 2}}, true, {"2.0"}}, {"fast <a>", {{1, 8}}, true, {"8.0"}}}};
  chart.bars = true;
  const std::string svg = line_chart_svg(chart);
  // 0.6 of the width without its margins.
  EXPECT_THAT(svg, HasSubstr("y=\"49.0\" width=\"247.2\""));
  EXPECT_THAT(svg, HasSubstr("y=\"85.0\" width=\"61.8\""));
  EXPECT_LT(svg.find("fast &lt;a&gt;"), svg.find(">slow<"));
  EXPECT_THAT(svg, HasSubstr(">8.0</text>"));
  EXPECT_THAT(svg, HasSubstr("height=\"106\""));
}

TEST(LineChartTest, CompanyIsBehindAndHasNoName) {
  LineChart chart{"t", "x", "y", {{"mean", {{0, 1}, {1, 2}}}, {"head", {{0, 1}, {1, 2}}, false}}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_LT(svg.find("<title>head"), svg.find("<title>mean"));
  EXPECT_EQ(occurrences(svg, ">head<"), 1U) << "its title alone";
  chart.lines[1].in_front = true;
  EXPECT_EQ(occurrences(line_chart_svg(chart), ">head<"), 2U) << "and beside its end";
}

TEST(LineChartTest, NamesStandBesideTheEndsOfLinesAndApart) {
  const std::string svg =
      line_chart_svg({"t",
                      "x",
                      "y",
                      {{"one", {{0, 1}, {1, 2}}},
                       {"two", {{0, 1}, {1, 2}}},
                       {"\u00e4\u00e4" + std::string(60, 'n'), {{0, 0}, {1, 0}}}}});
  const auto y_of = [&](const std::string& name) {
    const auto at = svg.rfind("y=\"", svg.find(">" + name));
    return std::stod(svg.substr(at + 3));
  };
  EXPECT_NEAR(std::abs(y_of("one</text>") - y_of("two</text>")), 14, 0.11);
  EXPECT_THAT(svg, HasSubstr("nnn\u2026</text>")) << "as much as there is room for";
}

TEST(LineChartTest, PointsHaveNotes) {
  LineChart chart{"t", "x", "y", {{"one", {{0, 1}, {1, 2}}}}};
  chart.lines[0].notes = {"12", "<7>"};
  EXPECT_THAT(line_chart_svg(chart), HasSubstr(">12</text>"));
  EXPECT_THAT(line_chart_svg(chart), HasSubstr(">&lt;7&gt;</text>"));
}

TEST(LineChartTest, LogarithmicAxesHaveDecadesAndNothingThatIsNotPositive) {
  LineChart chart{"t", "x", "y", {{"one", {{10, 1}, {100, 10}, {1000, 100}, {2000, 0}}}}, true};
  const std::string svg = line_chart_svg(chart);
  EXPECT_EQ(occurrences(svg, "<circle"), 3U);
  EXPECT_THAT(svg, HasSubstr("cy=\"136.0\"")) << "the middle of its decades";
  EXPECT_THAT(svg, HasSubstr(">200</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  chart.x_marks = {{100, "224x224"}};
  EXPECT_THAT(line_chart_svg(chart), HasSubstr(">224x224</text>"));
  EXPECT_THAT(line_chart_svg(chart), Not(HasSubstr(">200</text>")));
  const std::string both = charts_svg(std::vector<LineChart>{chart, chart});
  EXPECT_THAT(both, HasSubstr("width=\"880\" height=\"280\""));
  EXPECT_THAT(both, HasSubstr("translate(440 0)"));
}

TEST(LineChartTest, LogarithmicAxesOfLessThanADecadeHaveNumbers) {
  const LineChart chart{
      "t", "size", "memory in MB", {{"one", {{112, 156}, {160, 161}, {224, 167}}}}, true};
  const std::string svg = line_chart_svg(chart);
  for (const char* text : {">120<", ">140<", ">200<", ">220<", ">156<", ">158<", ">166<"})
    EXPECT_EQ(occurrences(svg, text), 1U) << text << " of\n" << svg;
  // log10(160 / 156) of the way up the range, which is 4 % wider on both sides.
  const double low = std::log10(156.0);
  const double size = std::log10(167.0) - low;
  const double place = (std::log10(160.0) - low + 0.04 * size) / (1.08 * size);
  std::ostringstream y;
  y << std::fixed << std::setprecision(1) << 238 - place * (238 - 34);
  EXPECT_THAT(svg, HasSubstr("y1=\"" + y.str() + "\" y2=\"" + y.str() + "\""));
}

TEST(LineChartTest, WithoutPointsThereAreAxes) {
  const std::string svg = line_chart_svg({"t", "x", "y", {{"none", {}}}});
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(line_chart_svg({"t", "x", "y", {{"one", {{1, 1}}}}}), Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace hydrascope::viz
