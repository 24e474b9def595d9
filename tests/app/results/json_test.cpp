#include "app/results/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydrascope::app {
namespace {

TEST(JsonText, Strings) {
  EXPECT_EQ(json_text("a\"b\\c\n\x01"), R"("a\"b\\c\n\u0001")");
  EXPECT_EQ(json_text("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(json_text("\xFFx"), "\"\xEF\xBF\xBDx\"");
}

TEST(JsonText, NumbersHaveNeitherNoiseNorExponent) {
  EXPECT_EQ(significant(double{0.9312F}, 6), "0.9312");
  EXPECT_EQ(significant(0.99999999, 6), "1.0");
  EXPECT_EQ(significant(1.0, 6), "1.0");
  EXPECT_EQ(significant(0.0, 6), "0.0");
  EXPECT_EQ(significant(1.23456789e-5, 6), "0.0000123457");
  EXPECT_EQ(significant(4e-9, 6), "0.000000004");
  EXPECT_EQ(significant(1e-30, 6), "0.0");
  EXPECT_EQ(significant(1234567.891, 6), "1234567.891");
  EXPECT_EQ(significant(1e15, 6), "1000000000000000.0");
  EXPECT_EQ(significant(-84.9, 6), "-84.9");
  EXPECT_EQ(decimal(11.84000015258789, 4), "11.84");
  EXPECT_EQ(decimal(-0.00001, 4), "0.0");
  EXPECT_EQ(decimal(12, 4), "12.0");
  EXPECT_EQ(decimal(100, 4), "100.0");
  EXPECT_EQ(fixed(0.125, 1), "0.1");
  EXPECT_EQ(fixed(2.5, 0), "2");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 30).size(), 309 + 1 + 30);
  EXPECT_EQ(json_text(rounded(decimal(std::nan(""), 4))), "null");
  EXPECT_EQ(json_text(rounded(-std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(json_text(rounded("-1.5")), "-1.5");
  EXPECT_EQ(json_text(rounded(1.23456789e-5)), "0.0000123457");
  EXPECT_EQ(json_text(rounded(double{0.9312F})), "0.9312");
  EXPECT_EQ(json_text(rounded(1e15)), "1000000000000000.0");
}

}  // namespace
}  // namespace hydrascope::app
