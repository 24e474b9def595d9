#include "viz/html_report/html_report.h"

#include "model/image/decode.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/viz/page/found_in_page.h"
#include "viz/heat/heat_overlay.h"
#include "viz/page/page_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace hydrascope::viz {
namespace html_report_test {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_bytes;

std::vector<std::byte> decoded(std::string_view base64) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : base64) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(digit));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count & 0xFF));
  }
  return bytes;
}

Canvas ramp(int width, int height) {
  Canvas canvas{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      canvas.rgb.push_back(static_cast<std::uint8_t>(255 * x / width));
      canvas.rgb.push_back(static_cast<std::uint8_t>(255 * y / height));
      canvas.rgb.push_back(100);
    }
  }
  return canvas;
}

ReportMap noise_map(std::int64_t rows, std::int64_t columns, std::mt19937& random) {
  ReportMap map;
  map.method = "hydra";
  map.head = "mean";
  map.is_signed = true;
  map.map.rows = rows;
  map.map.columns = columns;
  std::normal_distribution<float> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) map.map.values.push_back(values(random));
  return map;
}

ReportPicture sample(std::string name) {
  static std::mt19937 random(7);
  ReportPicture picture;
  picture.name = std::move(name);
  picture.picture = ramp(120, 60);
  picture.placement = {Axis::whole(60, 3), Axis::whole(120, 5)};
  picture.top = {{360, "otter", 0.9312}, {2, "shark & \"co\"", 0.01}};
  picture.facts = {{"size", "120 x 60"}};
  for (const std::int64_t index : {360, 2, 7}) {
    ReportMap map = noise_map(3, 5, random);
    map.class_index = index;
    map.layer = 11;
    picture.maps.push_back(std::move(map));
  }
  picture.others = {{7, "cock", 0.002}};
  return picture;
}

class HtmlReportTest : public ::testing::Test {
 protected:
  std::string write(const std::vector<ReportPicture>& pictures, const ReportOptions& options = {}) {
    HtmlReport report(file_, options);
    for (const ReportPicture& picture : pictures) report.add(report.prepare(picture));
    report.finish();
    return read_bytes(file_);
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), {});
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "report.html";
};

nlohmann::json about(const std::string& page, std::size_t index = 0) {
  return nlohmann::json::parse(
      between(page, R"(<script type="application/json" class="data">)", "</script>").at(index));
}

TEST_F(HtmlReportTest, IsWellFormed) {
  EXPECT_EQ(malformed("<p>a<b></p></b>"), "</p> closes another");
  EXPECT_EQ(malformed("<p>a<b/>"), "<p> is never closed");
  EXPECT_EQ(malformed(write({})), "");
  HtmlReport report(file_, {});
  report.add(report.prepare(sample("a.jpg")));
  report.add(ReportFailure{"b.jpg", "truncated"});
  report.add(report.prepare(sample("c.jpg")));
  report.finish();
  const std::string page = read_bytes(file_);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, HasSubstr("2 pictures, 1 could not be read "));
  EXPECT_THAT(page, HasSubstr("id=\"picture-3\""));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST_F(HtmlReportTest, EveryMapIsTheSameFloats) {
  ReportPicture picture = sample("a.jpg");
  picture.maps[1].map.values = {0.0F,
                                -0.0F,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::denorm_min(),
                                std::numeric_limits<float>::max(),
                                -1e-20F,
                                0.1F,
                                1,
                                2,
                                3,
                                4,
                                5,
                                6,
                                7};
  const std::string page = write({picture});
  const auto blocks = between(page, R"(<script type="text/plain" class="maps">)", "</script>");
  ASSERT_EQ(blocks.size(), 1U);
  std::size_t at = 0;
  for (const ReportMap& map : picture.maps) {
    const std::size_t end = blocks[0].find('\n', at);
    const std::vector<std::byte> bytes = decoded(std::string_view(blocks[0]).substr(at, end - at));
    const auto expected = std::as_bytes(std::span(map.map.values));
    EXPECT_TRUE(std::ranges::equal(bytes, expected));
    at = end + 1;
  }
  EXPECT_EQ(at, blocks[0].size());
}

TEST_F(HtmlReportTest, TellsTheScriptWhatTheMapsAre) {
  ReportPicture picture = sample("a.jpg");
  picture.placement = {{60, 30, 2, 24, 24, 3}, {120, 60, 18, 24, 24, 5}};
  picture.maps[0].class_index.reset();
  picture.maps[0].own_share = std::numeric_limits<double>::quiet_NaN();
  picture.maps[2].note = "approximate";
  const nlohmann::json data = about(write({picture}));
  const nlohmann::json& model = data["models"][0];
  EXPECT_EQ(model["vertical"], nlohmann::json::parse(R"({"picture": 60, "resized": 30, "start": 2,
            "window": 24, "output": 24, "cells": 3})"));
  EXPECT_EQ(model["horizontal"]["start"], 18);
  ASSERT_EQ(model["maps"].size(), 3U);
  EXPECT_TRUE(model["maps"][0]["class"].is_null());
  EXPECT_TRUE(model["maps"][0]["ownShare"].is_null());
  const auto class_of = [&](std::size_t map) {
    return data["classes"][model["maps"][map]["class"].get<std::size_t>()];
  };
  EXPECT_EQ(class_of(1)["label"], "shark & \"co\"");
  EXPECT_EQ(class_of(2)["label"], "cock") << "of `others`";
  EXPECT_EQ(data["notes"][model["maps"][2]["note"].get<std::size_t>()], "approximate");
  EXPECT_FALSE(model["maps"][1].contains("note"));
}

TEST_F(HtmlReportTest, TellsTheScriptHowMapsAreDrawnAtFirst) {
  ReportPicture picture = sample("a.jpg");
  picture.maps[1].range = ValueRange{-0.5F, 0.5F};
  ReportOptions options;
  options.colormap = options.signed_colormap = "viridis";
  options.sign = Sign::absolute;
  options.outlined_mass = 0.25;
  options.outlier_percent = 2;
  options.alpha = 0.75;
  const std::string page = write({picture}, options);
  const nlohmann::json model = about(page)["models"][0];
  EXPECT_FALSE(model["maps"][0].contains("range"));
  EXPECT_EQ(model["maps"][1]["range"], nlohmann::json::parse(R"({"low": -0.5, "high": 0.5})"));
  const auto texts =
      between(page, R"(<script type="application/json" id="settings">)", "</script>");
  const nlohmann::json settings = nlohmann::json::parse(texts.at(0));
  EXPECT_EQ(settings["look"], nlohmann::json::parse(R"({"opacity": 0.75, "colormap": "viridis",
            "signedColormap": "viridis", "sign": "absolute", "mass": 0.25, "smooth": true,
            "fade": false})"));
  EXPECT_EQ(settings["outlierPercent"], 2);
  EXPECT_EQ(settings["unseenBrightness"], OverlayStyle().unseen_brightness);
}

TEST_F(HtmlReportTest, TwoModelsShareClassesAndHaveTheirOwnMaps) {
  ReportPicture picture = sample("a.jpg");
  ReportAnswer& other = picture.against.emplace();
  other.placement = {Axis::whole(80, 2), Axis::whole(120, 4)};
  other.top = {{2, "shark <other>", 0.75}};
  other.maps = {picture.maps[1]};
  other.maps[0].map = {2, 4, {1, 2, 3, 4, 5, 6, 7, 8}};
  other.maps[0].total = 40;
  other.maps[0].is_additive = true;
  ReportOptions options;
  options.models = {"one", "<two>"};
  const std::string page = write({picture}, options);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, HasSubstr("<h3><bdi>&lt;two&gt;</bdi></h3>"));
  EXPECT_THAT(page, HasSubstr("shark &lt;other&gt;"));
  const nlohmann::json data = about(page);
  ASSERT_EQ(data["models"].size(), 2U);
  const nlohmann::json& map = data["models"][1]["maps"][0];
  EXPECT_EQ(map["class"], data["models"][0]["maps"][1]["class"]);
  EXPECT_EQ(map["line"], picture.maps.size());
  EXPECT_EQ(map["total"], 40);
  EXPECT_EQ(map["additive"], true);
  EXPECT_TRUE(data["models"][0]["maps"][0]["total"].is_null()) << "nothing is known";
  EXPECT_EQ(data["models"][1]["horizontal"]["cells"], 4);
  const auto position = map["class"].get<std::size_t>();
  EXPECT_EQ(data["models"][1]["probabilities"][position], 0.75);
  other.placement.vertical.cells = 3;
  EXPECT_ERROR(write({picture}, options), internal, "2 x 4", "3 x 4", "a.jpg");
}

TEST_F(HtmlReportTest, TitlesThatLookLikePlacesAreText) {
  ReportOptions options;
  options.title = "{{pictures}} {{counts}} {{settings}} 0 pictures ";
  options.facts = {{"{{content}}", "{{pictures}}"}};
  HtmlReport report(file_, options);
  report.add(report.prepare(sample("{{number}} {{content}}")));
  report.finish();
  const std::string page = read_bytes(file_);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, HasSubstr("<title>" + options.title + "</title>"));
  EXPECT_THAT(page, HasSubstr("<p id=\"counts\">1 picture "));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"name-1\"><bdi>{{number}} {{content}}</bdi></h2>"));
}

TEST_F(HtmlReportTest, NamesAreTextWhateverTheyHold) {
  const std::string hostile =
      "</script><!--<script>alert('1')</script>\" onload=\"x {{maps}} & \xFF\xC3(\xE2\x82 \x01 end";
  ReportPicture picture = sample(hostile);
  picture.top[0].label = hostile;
  picture.facts = {{hostile, hostile}};
  picture.maps[0].method = hostile;
  picture.maps[0].head = hostile;
  picture.maps[0].note = hostile;
  ReportOptions options;
  options.title = hostile;
  options.facts = {{hostile, hostile}};
  HtmlReport report(file_, options);
  report.add(report.prepare(picture));
  report.add(ReportFailure{hostile, hostile});
  report.finish();
  const std::string page = read_bytes(file_);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("alert('1')</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<!--<")));
  const std::string shown =
      "&lt;/script&gt;&lt;!--&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; "
      "onload=&quot;x {{maps}} &amp; \uFFFD\uFFFD(\uFFFD \uFFFD end";
  EXPECT_THAT(page, HasSubstr(" alt=\"" + shown + "\" decoding"));
  EXPECT_THAT(page, HasSubstr("<title>" + shown + "</title>"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"name-1\"><bdi>" + shown + "</bdi></h2>"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"name-2\"><bdi>" + shown + "</bdi></h2>"));
  EXPECT_EQ(about(page)["models"][0]["maps"][0]["method"],
            "</script><!--<script>alert('1')</script>\" onload=\"x {{maps}} & \uFFFD\uFFFD(\uFFFD "
            "\uFFFD end");
  // Parsing it again fails where a byte that is no UTF-8 is left anywhere.
  EXPECT_NO_THROW(static_cast<void>(nlohmann::json(page).dump()));
}

TEST_F(HtmlReportTest, NothingIsLoadedAndNoOtherScriptRuns) {
  const std::string page = write({sample("a.jpg")});
  const auto policy =
      between(page, R"(<meta http-equiv="Content-Security-Policy" content=")", "\"/>");
  ASSERT_EQ(policy.size(), 1U);
  EXPECT_THAT(policy[0], HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy[0], HasSubstr("img-src data:"));
  EXPECT_THAT(policy[0], ::testing::MatchesRegex(".*script-src 'sha256-[A-Za-z0-9+/]{43}='$"));
  EXPECT_THAT(policy[0], Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_THAT(page, Not(HasSubstr(" style=\"")));
}

TEST_F(HtmlReportTest, PicturesAreShrunkAndStayAsTheyLook) {
  ReportPicture large = sample("large.jpg");
  large.picture = ramp(1600, 1000);
  large.placement = {Axis::whole(1000, 3), Axis::whole(1600, 5)};
  const std::string page = write({large, sample("small.jpg")});
  const auto pictures = between(page, "src=\"data:image/jpeg;base64,", "\"");
  ASSERT_EQ(pictures.size(), 2U);
  const image::Picture shrunk = image::decode(decoded(pictures[0]), {});
  EXPECT_EQ(shrunk.width, 800);
  EXPECT_EQ(shrunk.height, 500);
  EXPECT_NEAR(shrunk.rgb[0], 0, 12);
  EXPECT_NEAR(shrunk.rgb[(499 * 800 + 799) * 3], 255, 12);
  EXPECT_THAT(page, HasSubstr("width=\"800\" height=\"500\""));
  const std::string thumbnail = about(page)["thumbnail"].get<std::string>();
  const std::string kPrefix = "data:image/jpeg;base64,";
  ASSERT_TRUE(thumbnail.starts_with(kPrefix));
  EXPECT_EQ(image::decode(decoded(thumbnail.substr(kPrefix.size())), {}).width, 144);
  large.placement = {Axis::whole(1000, 3), Axis::whole(1600, 41)};
  large.maps.clear();
  EXPECT_THAT(write({large}), HasSubstr("width=\"1600\" height=\"1000\"")) << "a fine grid";
  EXPECT_EQ(image::decode(decoded(pictures[1]), {}).width, 120) << "never enlarged";
}

TEST_F(HtmlReportTest, FiftyPicturesWithAllTheirMapsStaySmall) {
  std::mt19937 random(3);
  // Noise over a landscape: harder on JPEG than photographs are.
  ReportPicture picture = sample("a.jpg");
  picture.picture = ramp(960, 640);
  for (std::uint8_t& value : picture.picture.rgb) {
    value = static_cast<std::uint8_t>(
        std::clamp<int>(value + static_cast<int>(random() % 61) - 30, 0, 255));
  }
  const auto with_maps = [&](std::int64_t rows, std::int64_t columns) {
    picture.placement = {Axis::whole(640, rows), Axis::whole(960, columns)};
    picture.maps.clear();
    for (std::int64_t layer = 0; layer < 12; ++layer) {
      for (const char* method : {"hydra", "attention"}) {
        for (const std::int64_t index : {360, 2, 7}) {
          picture.maps.push_back(noise_map(rows, columns, random));
          picture.maps.back().layer = layer;
          picture.maps.back().method = method;
          picture.maps.back().class_index = index;
          picture.maps.back().note = "contributions, exact: they sum to the output";
        }
      }
    }
  };
  HtmlReport report(file_, {});
  with_maps(14, 14);
  for (int i = 0; i < 50; ++i) report.add(report.prepare(picture));
  with_maps(68, 120);
  for (int i = 0; i < 5; ++i) report.add(report.prepare(picture));
  report.finish();
  EXPECT_LT(std::filesystem::file_size(file_), 27'000'000U);
}

TEST_F(HtmlReportTest, AnUnfinishedReportLeavesNothing) {
  {
    HtmlReport report(file_, {});
    report.add(report.prepare(sample("a.jpg")));
    EXPECT_FALSE(std::filesystem::exists(file_));
  }
  EXPECT_EQ(files(), 0);
  static_cast<void>(folder_.write("report.html", "what was there before"));
  { const HtmlReport report(file_, {}); }
  EXPECT_EQ(read_bytes(file_), "what was there before");
  static_cast<void>(write({}));
  EXPECT_EQ(files(), 1);
  EXPECT_THAT(read_bytes(file_), HasSubstr("0 pictures "));
}

TEST_F(HtmlReportTest, APictureThatIsRefusedLeavesThePageAsItWas) {
  HtmlReport report(file_, {});
  report.add(report.prepare(sample("a.jpg")));
  ReportPicture wrong = sample("wrong.jpg");
  wrong.maps[1].map.columns = 4;
  EXPECT_ERROR(report.add(report.prepare(wrong)), internal, "3 x 4", "3 x 5", "wrong.jpg");
  report.add(report.prepare(sample("b.jpg")));
  report.finish();
  const std::string page = read_bytes(file_);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("wrong.jpg")));
  EXPECT_THAT(page, HasSubstr("2 pictures "));
}

/// Files of this process can be `bytes` long.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(HtmlReportTest, APageThatLacksAPartIsNeverFinished) {
  HtmlReport report(file_, {});
  const PreparedPicture picture = report.prepare(sample("a.jpg"));
  {
    const FileSizeLimit limit(
        std::filesystem::file_size(std::filesystem::directory_iterator(folder_.path())->path()) +
        picture.content.size() / 2);
    EXPECT_ERROR(report.add(picture), unwritable, "cannot be written", "report.html");
  }
  EXPECT_ERROR(report.add(picture), unwritable, "earlier part", "report.html");
  EXPECT_ERROR(report.finish(), unwritable, "earlier part", "report.html");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(HtmlReportTest, PicturesArePreparedOnManyThreads) {
  HtmlReport report(file_, {});
  const ReportPicture picture = sample("a.jpg");
  std::vector<PreparedPicture> prepared(8);
  {
    std::vector<std::jthread> threads;
    for (PreparedPicture& each : prepared)
      threads.emplace_back([&] { each = report.prepare(picture); });
    for (int i = 0; i < 4; ++i) report.add(ReportFailure{"b.jpg", "truncated"});
  }
  for (const PreparedPicture& each : prepared) report.add(each);
  report.finish();
  const std::string page = read_bytes(file_);
  EXPECT_EQ(malformed(page), "");
  EXPECT_THAT(page, HasSubstr("8 pictures, 4 could not be read "));
}

TEST_F(HtmlReportTest, Errors) {
  EXPECT_ERROR(HtmlReport(folder_.path() / "nowhere" / "report.html", {}), unwritable,
               "report.html");
  EXPECT_ERROR(HtmlReport(folder_.path(), {}), unwritable, "found a folder");
  ReportOptions options;
  options.colormap = "jet";
  EXPECT_ERROR(HtmlReport(file_, options), invalid_argument, "jet");
  EXPECT_EQ(files(), 0);
}

}  // namespace html_report_test
}  // namespace hydrascope::viz
