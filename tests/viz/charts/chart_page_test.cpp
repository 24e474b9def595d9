#include "viz/charts/chart_page.h"

#include "tests/viz/page/found_in_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::viz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChartPageTest, HoldsWhatWasAddedAndNothingOfItIsMarkup) {
  ChartPage page("<t>", "<line>", {{"<fact>", "<value>"}});
  page.add_figure("84.6 <%>", "<words>");
  page.add_paragraph("<p>&");
  page.add_warning("<w>");
  page.add_heading("<2>");
  page.add_charts(std::vector<LineChart>{
      {"<chart>", "x", "y", {{"<line>", {{0, 1}, {1, 2}}}}, false, false, {}, "<caption>"}});
  page.add_table(std::vector<std::vector<std::string>>{{"<a>", "b"}, {"1", "<2>"}, {"3", "4"}},
                 {false, true}, {false, true, false});
  page.add_table(std::vector<std::vector<std::string>>{{"x"}, {"y"}}, {}, {}, "<recipe>");
  page.add_gallery(
      std::vector<GalleryPicture>{{"<picture>", filled(640, 320, {}), {"<first>", "second"}}});
  const std::string html = page.html();
  EXPECT_EQ(malformed(html), "");
  for (const char* text :
       {"<title>&lt;t&gt;</title>", "<h1><bdi>&lt;t&gt;</bdi></h1>",
        "<summary><bdi>&lt;line&gt;</bdi></summary>",
        "<strong>84.6 &lt;%&gt;</strong><span>&lt;words&gt;</span>",
        "<dt>&lt;fact&gt;</dt><dd><bdi>&lt;value&gt;</bdi></dd>", "<p>&lt;p&gt;&amp;</p>",
        "<p><strong>&lt;w&gt;</strong></p>", "<h2>&lt;2&gt;</h2>",
        "<figcaption>&lt;caption&gt;</figcaption>",
        "<thead><tr><th>&lt;a&gt;</th><th class=\"words\">b</th>",
        "width=\"320\" height=\"160\" alt=\"&lt;picture&gt;\"",
        "<p>&lt;first&gt;</p>\n<p>second</p>", "<details><summary>&lt;recipe&gt;</summary>",
        "<tr class=\"strong\"><td>1</td><td class=\"words\">&lt;2&gt;</td></tr>\n<tr><td>3</td>"})
    EXPECT_THAT(html, HasSubstr(text));
  EXPECT_THAT(html, Not(HasSubstr("{{")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("script-src"))) << "no script runs";
  EXPECT_THAT(html, Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace hydrascope::viz
