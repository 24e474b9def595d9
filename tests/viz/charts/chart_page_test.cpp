#include "viz/charts/chart_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::viz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChartPageTest, HoldsWhatWasAddedAndNothingOfItIsMarkup) {
  ChartPage page("<t>", "<h>");
  page.add_paragraph("<p>&");
  page.add_warning("<w>");
  page.add_heading("<2>");
  page.add_list(std::vector<std::string>{"<l>"});
  page.add_charts(std::vector<LineChart>{
      {"<chart>", "x", "y", {{"<line>", {{0, 1}, {1, 2}}}}, false, {}, "<caption>"}});
  page.add_table(std::vector<std::vector<std::string>>{{"<a>", "b"}, {"1", "<2>"}, {"3", "4"}},
                 {false, true, false});
  const std::string html = page.html();
  for (const char* text :
       {"<title>&lt;t&gt;</title>", "<h1>&lt;h&gt;</h1>", "<p>&lt;p&gt;&amp;</p>",
        "<p><strong>&lt;w&gt;</strong></p>", "<h2>&lt;2&gt;</h2>", "<li>&lt;l&gt;</li>",
        "<figcaption>&lt;caption&gt;</figcaption>", "<thead><tr><th>&lt;a&gt;</th><th>b</th>",
        "<tr class=\"strong\"><td>1</td><td>&lt;2&gt;</td></tr>\n<tr><td>3</td>"})
    EXPECT_THAT(html, HasSubstr(text));
  EXPECT_THAT(html, Not(HasSubstr("{{")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace hydrascope::viz
