#include "app/visualize/output_stage.h"

#include "model/image/decode.h"
#include "model/image/video.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"
#include "viz/picture/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

InputMap map_of(std::int64_t rows, std::int64_t columns) {
  InputMap map;
  map.choice = {model::explain::Method::attention, 11, {}};
  map.map = {rows, columns, std::vector<float>(static_cast<std::size_t>(rows * columns), 1)};
  map.map.values.front() = 2;
  map.placement = {viz::Axis::whole(32, rows), viz::Axis::whole(48, columns)};
  return map;
}

ExplainedInput explained(const std::string& name, std::shared_ptr<VideoOutput> video = nullptr) {
  ExplainedInput input;
  input.facts.input = name;
  input.name = name;
  input.picture = viz::filled(48, 32, {200, 100, 50});
  input.maps = {map_of(2, 3)};
  input.shown = {shown_map(input.maps.front(), {})};
  input.video = std::move(video);
  return input;
}

class OutputStageTest : public ::testing::Test {
 protected:
  std::unique_ptr<OutputStage> stage(OutputOptions options = {}) {
    options.folder = folder_.path();
    options.threads = 2;
    return std::make_unique<OutputStage>(
        std::move(options), [this](std::span<const MapRecord> maps) {
          records_.insert(records_.end(), maps.begin(), maps.end());
          ++inputs_;
        });
  }
  [[nodiscard]] std::shared_ptr<VideoOutput> video() const {
    return std::make_shared<VideoOutput>(folder_.path() / "clip.mp4", fs::path(), 10);
  }

  TemporaryFolder folder_;
  std::vector<MapRecord> records_;
  std::size_t inputs_ = 0;
};

TEST_F(OutputStageTest, RecordsOfAnInputComeTogetherAndInOrder) {
  const auto output = stage();
  ExplainedInput two = explained("two");
  two.maps.push_back(two.maps.front());
  two.maps.back().choice.layer = 3;
  two.shown.push_back(shown_map(two.maps.back(), {}));
  output->add(std::move(two));
  output->add(explained("one"));
  output->finish();
  ASSERT_EQ(records_.size(), 3U);
  EXPECT_EQ(inputs_, 2U);
  EXPECT_EQ(records_[0].layer, 11);
  EXPECT_EQ(records_[1].layer, 3);
  EXPECT_EQ(records_[1].input, "two");
  EXPECT_EQ(records_[2].input, "one");
}

TEST_F(OutputStageTest, AVideoThatCannotBeWrittenIsNotTheEndOfTheOthers) {
  fs::create_directory(folder_.path() / "clip.mp4");
  const auto output = stage();
  const auto blocked = video();
  for (int i = 0; i < 3; ++i) output->add(explained("clip", blocked));
  output->close(blocked, {});
  output->add(explained("picture"));
  output->finish();
  ASSERT_EQ(records_.size(), 4U);
  EXPECT_EQ(output->failed(), 3);
  const auto says_why = [](const MapRecord& record) {
    return record.message.find("folder") != std::string::npos ||
           record.message.find("OpenCV") != std::string::npos;
  };
  EXPECT_TRUE(records_[0].error && says_why(records_[0])) << records_[0].message;
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(records_[i].error, records_[0].error);
    EXPECT_FALSE(says_why(records_[i])) << "once is enough: " << records_[i].message;
    EXPECT_NE(records_[i].message.find("a frame before"), std::string::npos);
  }
  EXPECT_FALSE(records_[3].error);
  EXPECT_TRUE(fs::exists(folder_.path() / "picture.heatmap.png"));
}

TEST_F(OutputStageTest, WhatIsNotForThePageIsNotThere) {
  OutputOptions options;
  options.html = folder_.path() / "page.html";
  options.report.colormap = viz::kDefaultColormap;
  options.report.signed_colormap = viz::kDefaultDivergingColormap;
  const auto output = stage(options);
  output->add(explained("shown_one"));
  ExplainedInput other = explained("other_one");
  other.on_page = false;
  output->add(std::move(other));
  output->finish();
  const std::string page = read_bytes(options.html);
  EXPECT_NE(page.find("shown_one"), std::string::npos);
  EXPECT_EQ(page.find("other_one"), std::string::npos);
  EXPECT_EQ(records_.size(), 2U);
  EXPECT_TRUE(fs::exists(folder_.path() / "other_one.heatmap.png"));
}

class VideoOutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!image::decoder_name().starts_with("OpenCV")) GTEST_SKIP() << "this build has no OpenCV";
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }
  TemporaryFolder folder_;
};

/// A pixel of a coded video, roughly.
bool is_near(const image::Picture& picture, int x, int y, viz::Color color) {
  const auto at = static_cast<std::size_t>((y * picture.width + x) * 3);
  const auto differs = [&](std::size_t channel, int expected) {
    return std::abs(int{picture.rgb.at(at + channel)} - expected) > 24;
  };
  return !differs(0, color.red) && !differs(1, color.green) && !differs(2, color.blue);
}

TEST_F(VideoOutputTest, FramesOfAnotherSizeAreCutOrFilledAndNeverScaled) {
  constexpr viz::Color kGrey{90, 90, 90};
  constexpr viz::Color kWhite{255, 255, 255};
  const std::vector<InputMap> maps{map_of(2, 3)};
  {
    VideoOutput video(path("clip.mp4"), {}, 10);
    video.add(viz::filled(96, 64, kGrey), maps);
    video.add(viz::filled(48, 96, kGrey), maps);
    video.close();
  }
  image::VideoReader reader(path("clip.mp4"), 1);
  ASSERT_TRUE(reader.next().has_value());
  const auto second = reader.next();
  ASSERT_TRUE(second.has_value());
  ASSERT_EQ(second->picture.width, 96);
  ASSERT_EQ(second->picture.height, 64);
  EXPECT_TRUE(is_near(second->picture, 8, 8, kGrey));
  EXPECT_TRUE(is_near(second->picture, 40, 60, kGrey)) << "cut below";
  EXPECT_TRUE(is_near(second->picture, 60, 8, kWhite)) << "filled beside";
}

TEST_F(VideoOutputTest, MapsOfAnotherSizeFailTheirFrameAlone) {
  const viz::Canvas frame = viz::filled(96, 64, {90, 90, 90});
  {
    VideoOutput video(path("clip.mp4"), path("clip.npy"), 10);
    video.add(frame, std::vector{map_of(2, 3)});
    EXPECT_ERROR(video.add(frame, std::vector{map_of(3, 2)}), unsupported_format, "clip.npy",
                 "maps of 3 x 2", "2 x 3", "`img_size`");
    video.add(frame, std::vector{map_of(2, 3)});
    video.close();
  }
  EXPECT_NE(read_bytes(path("clip.npy")).find("'shape': (2, 2, 3), }"), std::string::npos);
  image::VideoReader reader(path("clip.mp4"), 1);
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value()) << "a row of the array is a frame of the video";
}

TEST_F(VideoOutputTest, FramesAreShownAtTheirTimes) {
  const auto grey = [](std::uint8_t level) { return viz::filled(96, 64, {level, level, level}); };
  const std::vector<InputMap> maps{map_of(2, 3)};
  {
    VideoOutput video(path("clip.mp4"), path("clip.npy"), 10);
    video.add(grey(20), maps, 0);
    video.add(grey(120), maps, 0.5);   // the first one is shown for five frames
    video.add(grey(220), maps, 0.52);  // late by less than a frame
    video.close();
  }
  std::vector<int> levels;
  image::VideoReader reader(path("clip.mp4"), 1);
  while (const auto frame = reader.next()) levels.push_back((frame->picture.rgb.at(0) + 30) / 100);
  EXPECT_EQ(levels, (std::vector<int>{0, 0, 0, 0, 0, 1, 2}));
  EXPECT_NE(read_bytes(path("clip.npy")).find("'shape': (3, 2, 3), }"), std::string::npos)
      << "a row for each frame that was given";
}

TEST_F(VideoOutputTest, CodecsAreSilent) {
  ::testing::internal::CaptureStderr();
  {
    VideoOutput video(path("clip.mp4"), {}, 10);
    video.add(viz::filled(96, 64, {90, 90, 90}), std::vector{map_of(2, 3)});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(OutputNamesTest, TheFileNameWithoutItsExtension) {
  OutputNames names;
  EXPECT_EQ(names.name_for("folder/otters.jpg"), "otters");
  EXPECT_EQ(names.name_for("a.b.png"), "a.b");
  EXPECT_EQ(names.name_for("no_extension"), "no_extension");
  EXPECT_EQ(names.name_for("-dash.png"), "-dash");
  EXPECT_EQ(names.name_for("caf\xc3\xa9.png"), "caf\xc3\xa9");
  EXPECT_EQ(names.name_for("broken\xff.png"), "broken\xff") << "any bytes";
}

TEST(OutputNamesTest, NoTwoInputsShareOne) {
  OutputNames names;
  EXPECT_EQ(names.name_for("a/x.jpg"), "x");
  EXPECT_EQ(names.name_for("b/x-2.jpg"), "x-2");
  EXPECT_EQ(names.name_for("b/x.png"), "x-3") << "x-2 is an input's own";
  EXPECT_EQ(names.name_for("c/x.png"), "x-4");
  EXPECT_EQ(names.name_for("c/x-2.png"), "x-2-2");
}

TEST(OutputNamesTest, FilesOfOthersKeepTheirNames) {
  const TemporaryFolder folder;
  folder.write("photo.heatmap.png", testing::ppm(4, 3));
  folder.write("map.map.npy", "no array");
  viz::write_image(folder.path() / "own.heatmap.png", viz::filled(4, 3, {}));
  OutputNames names(folder.path(), {".heatmap.png", ".map.npy"}, {}, false);
  EXPECT_EQ(names.name_for("photo.jpg"), "photo-2");
  EXPECT_EQ(names.name_for("map.jpg"), "map-2");
  EXPECT_EQ(names.name_for("own.jpg"), "own");
}

TEST(OutputNamesTest, LongNamesAreCutBetweenCharacters) {
  OutputNames names;
  const std::string longest = names.name_for(std::string(251, 'x') + ".png");
  EXPECT_EQ(longest, std::string(200, 'x'));
  std::string two_bytes = "x";
  while (two_bytes.size() < 250) two_bytes += "\xc3\xa9";
  EXPECT_EQ(names.name_for(two_bytes + ".png").size(), 199U);
  EXPECT_EQ(names.name_for(std::string(251, 'x') + ".jpg"), longest + "-2");
}

TEST(OutputNamesTest, NamesThatSayNothing) {
  OutputNames names;
  EXPECT_EQ(names.name_for(".."), "input");
  EXPECT_EQ(names.name_for(""), "input-2");
}

}  // namespace
}  // namespace hydrascope::app
