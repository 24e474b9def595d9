#include "app/results/format.h"

#include "kernels/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;

TEST(ChooseFormat, WordThenExtensionThenText) {
  EXPECT_EQ(choose_format("csv", "out.json"), Format::csv);
  EXPECT_EQ(choose_format("text", "out.json"), Format::text);
  EXPECT_EQ(choose_format("", "out.json"), Format::json);
  EXPECT_EQ(choose_format("", "a.b/out.JSONL"), Format::jsonl);
  EXPECT_EQ(choose_format("", "out.csv"), Format::csv);
  EXPECT_EQ(choose_format("", "out.tsv"), Format::tsv);
  for (const char* output : {"", "-", "out", "out.txt", "folder/", "out.", ".json", "csv"}) {
    EXPECT_EQ(choose_format("", output), Format::text) << output;
  }
  try {
    choose_format("xml", "");
    FAIL() << "xml is no format";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.hint(), HasSubstr("jsonl"));
  }
}

TEST(DelimitedRow, IsQuotedAsItsFormatWantsIt) {
  const std::vector<std::string> fields{"", " a ", "b\r", "c\td", "e\"|"};
  EXPECT_EQ(delimited_row(fields, Format::csv), ", a ,\"b\r\",c\td,\"e\"\"|\"\n");
  EXPECT_EQ(delimited_row(fields, Format::md), "|  |  a  | b\r | c\td | e\"\\| |\n");
  const std::vector<std::string> odd{"a\tb", "c\nd\re", "f\\g", "h,\"i\""};
  EXPECT_EQ(delimited_row(odd, Format::tsv), "a\\tb\tc\\nd\\re\tf\\\\g\th,\"i\"\n");
  EXPECT_EQ(header_row(std::vector<std::string>{"a", "b"}, Format::md),
            "| a | b |\n| --- | --- |\n");
}

}  // namespace
}  // namespace hydrascope::app
