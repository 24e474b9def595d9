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
#include <csignal>
#include <cstdint>
#include <filesystem>
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

ReportPicture sample(std::string name) {
  ReportPicture picture;
  picture.name = std::move(name);
  picture.picture = ramp(120, 60);
  picture.answer = R"({"top": [{"label": "otter"}, {"label": "shark & <co>"}], "maps": []})";
  picture.top = {"otter 93.1 %", "shark & \"co\" 1.0 %"};
  picture.finest_grid = 5;
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
  const std::string data(between(page, R"(class="data" data-thumbnail=")", "</script>").at(index));
  return nlohmann::json::parse(data.substr(data.find('>') + 1));
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

TEST_F(HtmlReportTest, HoldsTheAnswerAsItIs) {
  const ReportPicture picture = sample("a.jpg");
  const std::string page = write({picture});
  EXPECT_EQ(about(page), nlohmann::json::parse(picture.answer));
  EXPECT_THAT(page, Not(HasSubstr("<co>"))) << "nothing in a script begins an element";
  EXPECT_THAT(page, HasSubstr("<li><bdi>shark &amp; &quot;co&quot; 1.0 %</bdi></li>"));
}

TEST_F(HtmlReportTest, TellsTheScriptHowMapsAreDrawnAtFirst) {
  ReportOptions options;
  options.colormap = options.signed_colormap = "viridis";
  options.sign = Sign::absolute;
  options.alpha = 0.75;
  const std::string page = write({sample("a.jpg")}, options);
  const auto texts =
      between(page, R"(<script type="application/json" id="settings">)", "</script>");
  const nlohmann::json settings = nlohmann::json::parse(texts.at(0));
  EXPECT_EQ(settings["look"], nlohmann::json::parse(R"({"opacity": 0.75, "colormap": "viridis",
            "signedColormap": "viridis", "sign": "absolute"})"));
  EXPECT_EQ(settings["outlierPercent"], kOutlierPercent);
  EXPECT_EQ(settings["unseenBrightness"], OverlayStyle().unseen_brightness);
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
  picture.top[0] = hostile;
  const std::string method = "</script><!--<script>alert('1')</script>";
  picture.answer = nlohmann::json({{"method", method}}).dump();
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
  EXPECT_EQ(about(page)["method"], method);
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
  const std::string page = write({large, sample("small.jpg")});
  const auto pictures = between(page, "src=\"data:image/jpeg;base64,", "\"");
  ASSERT_EQ(pictures.size(), 2U);
  const image::Picture shrunk = image::decode(decoded(pictures[0]), {});
  EXPECT_EQ(shrunk.width, 800);
  EXPECT_EQ(shrunk.height, 500);
  EXPECT_NEAR(shrunk.rgb[0], 0, 12);
  EXPECT_NEAR(shrunk.rgb[(499 * 800 + 799) * 3], 255, 12);
  EXPECT_THAT(page, HasSubstr("width=\"800\" height=\"500\""));
  const auto thumbnails = between(page, "data-thumbnail=\"data:image/jpeg;base64,", "\"");
  EXPECT_EQ(image::decode(decoded(thumbnails.at(0)), {}).width, 144);
  large.finest_grid = 41;
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
    constexpr std::size_t kMaps = 12 * 2 * 3;
    constexpr std::size_t kRecord = 900;  // bytes beside the values
    const auto digits = static_cast<std::size_t>(rows * columns) * sizeof(float) * 4 / 3;
    picture.finest_grid = columns;
    picture.answer = '"' + std::string(kMaps * (kRecord + digits), 'A') + '"';
  };
  HtmlReport report(file_, {});
  with_maps(14, 14);
  for (int i = 0; i < 50; ++i) report.add(report.prepare(picture));
  with_maps(68, 120);
  for (int i = 0; i < 5; ++i) report.add(report.prepare(picture));
  report.finish();
  EXPECT_LT(std::filesystem::file_size(file_), 31'000'000U);
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
