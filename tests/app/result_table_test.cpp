#include "app/result_table.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace hydrascope::app {
namespace {

ResultTable two_rows() {
  ResultTable table({{"name", "name"}, {"images", "images"}, {"share", "share", 2}});
  table.add({std::string("a, b"), std::int64_t{10}, 0.25});
  table.add({std::string("c"), std::int64_t{7}, std::numeric_limits<double>::quiet_NaN()});
  return table;
}

std::string in(Format format) {
  std::ostringstream out;
  two_rows().write(format, out);
  return out.str();
}

TEST(ResultTableTest, EveryFormat) {
  EXPECT_EQ(in(Format::text),
            "name  images  share\n"
            "a, b      10   0.25\n"
            "c          7      -\n");
  EXPECT_EQ(in(Format::csv), "name,images,share\n\"a, b\",10,0.25\nc,7,\n");
  EXPECT_EQ(in(Format::tsv), "name\timages\tshare\na, b\t10\t0.25\nc\t7\t\n");
  EXPECT_EQ(in(Format::json),
            "[{\"name\":\"a, b\",\"images\":10,\"share\":0.25},"
            "{\"name\":\"c\",\"images\":7,\"share\":null}]\n");
  EXPECT_EQ(in(Format::jsonl),
            "{\"name\":\"a, b\",\"images\":10,\"share\":0.25}\n"
            "{\"name\":\"c\",\"images\":7,\"share\":null}\n");
}

TEST(ResultTableTest, ARowHasACellAColumn) {
  ResultTable table({{"a", "a"}, {"b", "b"}});
  EXPECT_ERROR(table.add({std::int64_t{1}}), internal, "2 cells");
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.json(), "[]");
}

}  // namespace
}  // namespace hydrascope::app
