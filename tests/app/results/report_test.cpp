#include "app/results/report.h"

#include "model/image/decode.h"
#include "tests/app/formats.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"
#include "tests/viz/page/found_in_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Report facts() {
  Report report("facts");
  report.add("top1", 84.8999999999);
  report.add("images", 500);
  report.add("native", false);
  report.summary.add_size("img_size", 160, 224);
  report.add("crop_pct", 0.875, 3);
  report.add("device", std::string_view("a,b"));
  report.summary.add("config", OrderedJson::parse(R"({"a":[1]})"), 0, kInJson);
  return report;
}

/// With a table of its own and one that is for people.
Report with_tables() {
  Report report = facts();
  ResultTable rows({{"name", "name"}, {"share", "a share", 2}});
  rows.add({"a|b", 0.25});
  rows.add({"c", std::numeric_limits<double>::quiet_NaN()}, true);
  ResultTable shown({{"x", "<x>"}, {"y", "y"}, {"by", "by"}});
  shown.add({1, 2, "one"});
  shown.add({1, 4, "two"});
  shown.add({2, 3, "one"});
  report.charts = {{"a chart", "x", "y", lines_of(shown, "x", "y", "by")}};
  report.add_table("", "For people", std::move(shown), kForPeople);
  report.add_table("rows", "All", std::move(rows), kMain);
  report.notes = {"a note"};
  report.remarks = {"<a remark>"};
  return report;
}

TEST(ReportTest, FactsInEveryFormat) {
  EXPECT_EQ(testing::written(facts(), Format::jsonl),
            R"({"schema":1,"top1":84.9,"images":500,"native":false,"img_size":[160,224],)"
            R"("crop_pct":0.875,"device":"a,b","config":{"a":[1]}})"
            "\n");
  const std::string json = testing::written(facts(), Format::json);
  EXPECT_THAT(json, StartsWith("{\n  \"schema\":1,\n  \"top1\":84.9,\n"));
  EXPECT_EQ(OrderedJson::parse(json), OrderedJson::parse(testing::written(facts(), Format::jsonl)));
  EXPECT_EQ(testing::written(facts(), Format::text),
            "top1      84.90\n"
            "images    500\n"
            "native    no\n"
            "img size  160x224 (HxW)\n"
            "crop pct  0.875\n"
            "device    a,b\n");
  EXPECT_EQ(testing::written(facts(), Format::csv),
            "top1,images,native,img_size,crop_pct,device\n84.9,500,false,160x224,0.875,\"a,b\"\n");
  EXPECT_THAT(testing::written(facts(), Format::md), StartsWith("- top1: 84.90\n- images: 500\n"));
}

TEST(ReportTest, OddFacts) {
  Report report("odd");
  report.add("speed", std::nan(""));
  report.add("name", "a\nb");
  report.add("options", OrderedJson::parse(R"({"softmax.logit_scale":"none","taps":3})"));
  report.add("none", OrderedJson::array());
  EXPECT_EQ(testing::written(report, Format::jsonl),
            R"({"schema":1,"speed":null,"name":"a\nb",)"
            R"("options":{"softmax.logit_scale":"none","taps":3},"none":[]})"
            "\n");
  EXPECT_EQ(testing::written(report, Format::text),
            "speed    -\nname     a\\nb\noptions  softmax.logit_scale=none, taps=3\nnone     -\n");
  EXPECT_EQ(testing::written(Report(""), Format::json), "{\n  \"schema\":1\n}\n");
}

TEST(ReportTest, PeopleReadFactsTablesRemarksAndNotes) {
  EXPECT_THAT(testing::written(with_tables(), Format::text),
              HasSubstr("device    a,b\n\nFor people\n<x>  y  by\n  1  2  one\n  1  4  two\n"
                        "  2  3  one\n\nAll\nname  a share\na|b      0.25\nc           -\n\n"
                        "<a remark>\nnote: a note\n"));
  EXPECT_THAT(testing::written(with_tables(), Format::md),
              HasSubstr("- device: a,b\n\n## For people\n\n| <x> | y | by |\n"));
  EXPECT_THAT(testing::written(with_tables(), Format::md),
              HasSubstr("| a\\|b | 0.25 |\n| c | - |\n\n- <a remark>\n- note: a note\n"));
}

TEST(ReportTest, RowsAreOneTableAndNotesStandBeside) {
  std::vector<std::string> said;
  std::ostringstream out;
  with_tables().write(Format::csv, out, [&](const std::string& note) { said.push_back(note); });
  EXPECT_EQ(out.str(), "name,share\na|b,0.25\nc,\n");
  EXPECT_THAT(said, ElementsAre("note: a note"));
  said.clear();
  with_tables().write(Format::text, out, [&](const std::string& note) { said.push_back(note); });
  EXPECT_TRUE(said.empty()) << "the text holds it";
}

TEST(ReportTest, JsonHoldsTablesByTheirKeys) {
  const OrderedJson json = with_tables().json();
  EXPECT_EQ(json.at("rows").at(0).at("share"), 0.25);
  EXPECT_FALSE(json.contains("")) << "what is for people";
  Report whole("whole");
  whole.add("images", 3);
  whole.add_part("part", with_tables());
  EXPECT_EQ(json_text(whole.json().at("part")), json_text(json));
  EXPECT_FALSE(whole.json().contains("rows"));
  EXPECT_EQ(testing::written(whole, Format::csv), testing::written(with_tables(), Format::csv));
  EXPECT_THAT(testing::written(whole, Format::text), StartsWith("images  3\n\nFor people\n"));
  EXPECT_THAT(testing::written(whole, Format::text), HasSubstr("note: a note\n"));
}

TEST(ReportTest, MayBeOneTable) {
  ResultTable table({{"a", "title"}, {"b", "b"}});
  table.add({1, 2});
  const Report report = Report::of("one", std::move(table));
  EXPECT_EQ(testing::written(report, Format::json), "[{\"a\":1,\"b\":2}]\n");
  EXPECT_EQ(testing::written(report, Format::jsonl), "{\"a\":1,\"b\":2}\n");
  EXPECT_EQ(testing::written(report, Format::text), "title  b\n    1  2\n");
  EXPECT_THAT(testing::written(report, Format::html), HasSubstr("<th>title</th>"));
}

TEST(ReportTest, PageHoldsAllAndNothingOfItIsMarkup) {
  const std::string page = testing::written(with_tables(), Format::html);
  EXPECT_EQ(viz::malformed(page), "");
  for (const char* text :
       {"<dt>top1</dt><dd><bdi>84.90</bdi></dd>", "<strong>a note</strong>", "&lt;a remark&gt;",
        "<svg", "<h2>For people</h2>", "<th>&lt;x&gt;</th>", "<tr class=\"strong\"><td"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, Not(HasSubstr("config"))) << "of json alone";
}

TEST(ReportTest, GalleriesAreOnAPage) {
  const auto picture = [](const char* name) {
    return viz::GalleryPicture{name, thumbnail(viz::filled(20, 10, {})), {"a line"}};
  };
  Report report("facts");
  report.galleries = [&] {
    return std::vector<Gallery>{{"First", {picture("a/1.jpg"), picture("2.jpg"), picture("3.jpg")}},
                                {"Second", {picture("4.jpg")}}};
  };
  const std::string page = testing::written(report, Format::html);
  EXPECT_EQ(viz::malformed(page), "");
  std::size_t last = 0;
  for (const char* text : {"<h2>First</h2>", "<p>1.jpg</p>\n<p>a line</p>", "<p>3.jpg</p>",
                           "<h2>Second</h2>", "<p>4.jpg</p>"}) {
    const std::size_t found = page.find(text, last);
    ASSERT_NE(found, std::string::npos) << text;
    last = found;
  }
}

TEST(LinesOf, AreByAColumn) {
  ResultTable table({{"x", ""}, {"y", ""}, {"by", ""}});
  table.add({0, 1.5, "a"});
  table.add({1, OrderedJson(), "b"});
  table.add({2, 2.5, "a"});
  const auto lines = lines_of(table, "x", "y", "by");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].name, "a");
  EXPECT_THAT(lines[0].points, ElementsAre(std::pair(0.0, 1.5), std::pair(2.0, 2.5)));
  EXPECT_TRUE(std::isnan(lines[1].points[0].second));
  EXPECT_EQ(lines_of(table, "x", "y").size(), 1U);
}

}  // namespace
}  // namespace hydrascope::app
