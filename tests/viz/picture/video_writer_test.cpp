#include "viz/picture/video_writer.h"

#include "model/image/decoders/captured_messages.h"
#include "model/image/video.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace hydrascope::viz {
namespace {

bool has_opencv() { return image::decoder_name().starts_with("OpenCV"); }

/// A bright square that moves over a soft ground, which codecs keep well.
Canvas frame(int index, int width, int height) {
  Canvas canvas{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool square = std::abs(x - 8 * index - 12) < 8 && std::abs(y - height / 2) < 8;
      canvas.rgb.push_back(static_cast<std::uint8_t>(square ? 220 : 40 + x));
      canvas.rgb.push_back(static_cast<std::uint8_t>(square ? 210 : 60 + y));
      canvas.rgb.push_back(static_cast<std::uint8_t>(square ? 190 : 80));
    }
  }
  return canvas;
}

double mean_difference(const image::Picture& read, const Canvas& written) {
  double sum = 0;
  for (int y = 0; y < read.height; ++y) {
    for (int i = 0; i < read.width * 3; ++i) {
      const int a = read.rgb[static_cast<std::size_t>(y * read.width * 3 + i)];
      const int b = written.rgb[static_cast<std::size_t>(y * written.width * 3 + i)];
      sum += std::abs(a - b);
    }
  }
  return sum / (3.0 * read.width * read.height);
}

class VideoWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_opencv()) GTEST_SKIP() << "this build has no OpenCV";
  }
  [[nodiscard]] std::vector<std::filesystem::path> names() const {
    return {std::filesystem::directory_iterator(folder_.path()), {}};
  }
  testing::TemporaryFolder folder_;
};

TEST_F(VideoWriterTest, FramesAreReadBack) {
  constexpr int kFrames = 9;
  const auto file = folder_.path() / "clip.mp4";
  VideoWriter writer(file, 96, 64, 12.5);
  for (int i = 0; i < kFrames; ++i) writer.add(frame(i, 96, 64));
  EXPECT_EQ(writer.frames(), kFrames);
  writer.close();

  image::VideoReader reader(file, 1);
  EXPECT_NEAR(reader.facts().frames_per_second, 12.5, 0.1);
  EXPECT_NEAR(static_cast<double>(reader.facts().num_frames), kFrames, 1);
  for (int i = 0; i < kFrames; ++i) {
    const auto picture = reader.next();
    ASSERT_TRUE(picture.has_value()) << "frame " << i;
    ASSERT_EQ(picture->picture.width, 96);
    ASSERT_EQ(picture->picture.height, 64);
    const double difference = mean_difference(picture->picture, frame(i, 96, 64));
    EXPECT_LT(difference, 4) << "frame " << i;
    EXPECT_GT(mean_difference(picture->picture, frame(i + 3, 96, 64)), difference + 3)
        << "frame " << i;
  }
  EXPECT_FALSE(reader.next().has_value());
}

TEST_F(VideoWriterTest, OddEdgesLoseAPixel) {
  const auto file = folder_.path() / "odd.mp4";
  VideoWriter writer(file, 97, 65, 10);
  writer.add(frame(2, 97, 65));
  writer.close();
  image::VideoReader reader(file, 1);
  const auto picture = reader.next();
  ASSERT_TRUE(picture.has_value());
  EXPECT_EQ(picture->picture.width, 96);
  EXPECT_EQ(picture->picture.height, 64);
  EXPECT_LT(mean_difference(picture->picture, frame(2, 97, 65)), 5);
}

TEST_F(VideoWriterTest, WhatIsNotClosedCanBePlayed) {
  const auto file = folder_.path() / "stopped.mp4";
  {
    VideoWriter writer(file, 96, 64, 10);
    writer.add(frame(0, 96, 64));
    writer.add(frame(1, 96, 64));
  }
  image::VideoReader reader(file, 1);
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value());
}

TEST_F(VideoWriterTest, Errors) {
  const auto& folder = folder_.path();
  ::testing::internal::CaptureStderr();
  EXPECT_ERROR(VideoWriter(folder / "nowhere" / "clip.mp4", 96, 64, 10), unwritable, "clip.mp4",
               "No such file");
  std::filesystem::create_directory(folder / "folder.mp4");
  EXPECT_ERROR(VideoWriter(folder / "folder.mp4", 96, 64, 10), unwritable, "found a folder");
  EXPECT_ERROR(VideoWriter(folder / "clip.mp4", 1, 64, 10), unsupported_format, "1 x 64");
  EXPECT_ERROR(VideoWriter(folder / "clip.mp4", 96, 64, 0), invalid_argument, "frames a second");
  EXPECT_FALSE(std::filesystem::exists(folder / "clip.mp4"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  const image::CapturedMessages messages;
  VideoWriter writer(folder / "clip.mp4", 96, 64, 10);
  EXPECT_ERROR(writer.add(frame(0, 64, 64)), internal, "64 x 64", "96 x 64");
  writer.close();
  EXPECT_ERROR(writer.add(frame(0, 96, 64)), internal, "closed");
}

TEST_F(VideoWriterTest, TheFileHasItsNameOnceItCanBePlayed) {
  const auto file = folder_.write("clip.mp4", "the run before");
  VideoWriter writer(file, 96, 64, 10);
  writer.add(frame(0, 96, 64));
  EXPECT_EQ(testing::read_bytes(file), "the run before");
  writer.close();
  EXPECT_TRUE(image::VideoReader(file, 1).next().has_value());
  EXPECT_EQ(names().size(), 1U) << "nothing temporary is left";
}

TEST_F(VideoWriterTest, WithoutAFrameWhatWasThereStays) {
  const auto file = folder_.write("clip.mp4", "the run before");
  VideoWriter(file, 96, 64, 10).close();
  EXPECT_EQ(testing::read_bytes(file), "the run before");
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(VideoWriterTest, AVideoThatVanishedIsNotWritten) {
  const image::CapturedMessages messages;
  VideoWriter writer(folder_.path() / "gone.mp4", 96, 64, 10);
  writer.add(frame(0, 96, 64));
  for (const auto& name : names()) std::filesystem::remove(name);
  EXPECT_ERROR(writer.close(), unwritable, "gone.mp4", "not written whole");
}

TEST(VideoWriterWithoutOpenCv, SaysSo) {
  if (has_opencv()) GTEST_SKIP() << "this build has OpenCV";
  EXPECT_ERROR(VideoWriter("clip.mp4", 96, 64, 10), unsupported_format, "no OpenCV",
               "HYDRASCOPE_OPENCV=ON");
}

}  // namespace
}  // namespace hydrascope::viz
