#include "model/image/video.h"

#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

using testing::data_folder;
using testing::read_file;

class Video : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!decoder_name().starts_with("OpenCV")) GTEST_SKIP() << "this build has no OpenCV";
  }
  const std::filesystem::path file_ =
      data_folder("../corpus/videos") / "six_frames.avi";  // grey 40 * i, 10 a second
};

std::vector<std::int64_t> indices(VideoReader& video) {
  std::vector<std::int64_t> read;
  while (const std::optional<VideoFrame> frame = video.next()) {
    read.push_back(frame->number);
    EXPECT_EQ(frame->picture.width, 32);
    EXPECT_EQ(frame->picture.height, 16);
    EXPECT_NEAR(frame->picture.rgb.at(0), 40.0 * static_cast<double>(frame->number), 6);
    EXPECT_NEAR(frame->seconds.value_or(-1), 0.1 * static_cast<double>(frame->number), 1e-9);
    EXPECT_FALSE(frame->is_estimated);
  }
  return read;
}

/// Number and time of what is read, and why it ended.
struct Read {
  std::vector<std::int64_t> numbers;
  std::vector<double> seconds;
  std::string error;
};

/// Frames of videos whose frame k is of grey level 5 k.
Read read_all(const std::filesystem::path& file, std::int64_t stride) {
  Read read;
  try {
    VideoReader video(file, stride);
    while (const std::optional<VideoFrame> frame = video.next()) {
      read.numbers.push_back(frame->number);
      read.seconds.push_back(frame->seconds.value_or(-1));
      EXPECT_NEAR(frame->picture.rgb.at(0), 5.0 * static_cast<double>(frame->number), 8);
    }
    EXPECT_FALSE(video.next().has_value());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::decode_failed);
    read.error = error.what();
  }
  return read;
}

TEST_F(Video, EveryFrame) {
  VideoReader video(file_, 1);
  EXPECT_DOUBLE_EQ(video.facts().frames_per_second, 10);
  EXPECT_EQ(indices(video), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_FALSE(video.next().has_value());
}

TEST_F(Video, Stride) {
  VideoReader every_second(file_, 2);
  EXPECT_EQ(indices(every_second), (std::vector<std::int64_t>{0, 2, 4}));
  VideoReader each_second_of_time(file_, 0);
  EXPECT_EQ(indices(each_second_of_time), (std::vector<std::int64_t>{0}));
}

TEST_F(Video, SaysHowManyFramesThereAre) {
  EXPECT_EQ(VideoReader(file_, 1).facts().num_frames, 6);
  EXPECT_EQ(VideoReader(file_, 4).facts().num_frames, 6);
  EXPECT_EQ(VideoReader(file_, 1).facts().num_read, 6);
  EXPECT_EQ(VideoReader(file_, 4).facts().num_read, 2);
  EXPECT_EQ(VideoReader(file_, 0).facts().num_read, 1) << "0.6 seconds";
}

TEST_F(Video, ErrorsComeWithoutOutput) {
  const testing::TemporaryFolder folder;
  const auto text = folder.write("text.mp4", "no video");
  ::testing::internal::CaptureStderr();
  EXPECT_ERROR(VideoReader(folder.path() / "nowhere.mp4", 1), not_found, "nowhere.mp4");
  EXPECT_ERROR(VideoReader(text, 1), decode_failed, "text.mp4");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// 40 frames 25 ms apart, then ten a second apart: by their average rate every 6th or 25th frame
/// would be taken for a second. The last frames of those with B-frames have no time from OpenCV.
TEST_F(Video, OneFrameASecondIsByTimeStamps) {
  for (const char* name : {"uneven.mp4", "uneven.mkv", "uneven.webm", "fragments.mp4"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path file = file_.parent_path() / name;
    const Read each_second = read_all(file, 0);
    EXPECT_EQ(each_second.error, "");
    EXPECT_EQ(each_second.numbers,
              (std::vector<std::int64_t>{0, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49}));
    ASSERT_EQ(each_second.seconds.size(), 11U);
    for (std::size_t i = 0; i < 11; ++i)
      EXPECT_NEAR(each_second.seconds[i], static_cast<double>(i), 1e-9);
    const Read each_tenth = read_all(file, 10);
    EXPECT_EQ(each_tenth.numbers, (std::vector<std::int64_t>{0, 10, 20, 30, 40}));
    EXPECT_NEAR(each_tenth.seconds.at(3), 0.75, 1e-9);
    EXPECT_EQ(read_all(file, 1).numbers.size(), 50U);
  }
}

TEST_F(Video, TimesAreTheStreamsWhereFirstFramesAreDamaged) {
  const testing::TemporaryFolder folder;
  std::string bytes = read_file(file_);
  std::size_t at = 0;
  for (int i = 0; i < 2; ++i) {
    at = bytes.find("00dc", at);
    ASSERT_NE(at, bytes.npos);
    std::size_t size = 0;
    for (std::size_t byte = 0; byte < 4; ++byte)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + 4 + byte]))
              << 8 * byte;
    bytes.replace(at + 8, size, size, '\0');
    at += 8 + size;
  }
  VideoReader video(folder.write("damaged.avi", bytes), 1);
  const std::optional<VideoFrame> first = video.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->number, 2);
  EXPECT_NEAR(first->seconds.value_or(-1), 0.2, 1e-9);
  EXPECT_NEAR(first->picture.rgb.at(0), 80, 6);
}

TEST_F(Video, TimesBeginAtTheFirstFrame) {
  const Read late = read_all(file_.parent_path() / "late.mkv", 0);
  EXPECT_EQ(late.error, "");
  EXPECT_EQ(late.numbers, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(late.seconds, (std::vector<double>{0, 1.5, 3}));
}

TEST_F(Video, FramesMayShareATime) {
  const Read equal = read_all(file_.parent_path() / "equal.mkv", 1);
  EXPECT_EQ(equal.error, "");
  const std::vector<double> expected{0, 0, 0.04, 0.08, 0.08, 0.12};
  ASSERT_EQ(equal.seconds.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(equal.seconds[i], expected[i], 1e-9);
}

TEST_F(Video, ACopyOfConstantRateShowsEachFrameAtItsTime) {
  EXPECT_DOUBLE_EQ(VideoReader(file_, 1).copy_rate(), 10);
  EXPECT_NEAR(VideoReader(file_.parent_path() / "uneven.mp4", 1).copy_rate(), 40, 1e-9);
}

TEST_F(Video, AFileThatWasCutIsAnErrorBehindItsFrames) {
  const testing::TemporaryFolder folder;
  for (const char* name :
       {"uneven.mp4", "uneven.mkv", "uneven.webm", "fragments.mp4", "six_frames.avi"}) {
    const std::string whole = read_file(file_.parent_path() / name);
    for (const int percent : {60, 75, 85, 95}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(percent));
      const auto cut = folder.write("cut" + std::filesystem::path(name).extension().string(),
                                    whole.substr(0, whole.size() * percent / 100));
      std::size_t frames = 0;
      std::string error;
      try {
        VideoReader video(cut, 1);
        while (video.next()) ++frames;
        EXPECT_EQ(frames, 50U) << "it lost nothing but the index behind its frames";
        EXPECT_STREQ(name, "uneven.mkv");
        continue;
      } catch (const Error& thrown) {
        EXPECT_EQ(thrown.code(), ErrorCode::decode_failed);
        error = thrown.what();
      }
      EXPECT_LT(frames, 50U);
      EXPECT_NE(error.find("cut or damaged"), std::string::npos) << error;
      if (frames > 0) {
        EXPECT_NE(error.find(std::to_string(frames)), std::string::npos) << error;
      }
    }
  }
}

TEST_F(Video, DamageInTheMiddleIsAnError) {
  const testing::TemporaryFolder folder;
  std::string damaged = read_file(file_);
  // The third picture of six: the others are read.
  const std::size_t third =
      damaged.find("00dc", damaged.find("00dc", damaged.find("00dc") + 4) + 4);
  std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(third) + 8, 300, '\0');
  VideoReader video(folder.write("damaged.avi", damaged), 1);
  std::vector<std::int64_t> read;
  try {
    while (const auto frame = video.next()) read.push_back(frame->number);
    FAIL() << "no word of the damage";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::decode_failed);
    EXPECT_STREQ(error.what(), "frames are missing: 5 of 6 frames were read, the last at 0.500 s");
  }
  EXPECT_EQ(read, (std::vector<std::int64_t>{0, 1, 3, 4, 5}));
}

TEST(VideoWithoutOpenCv, SaysSo) {
  if (decoder_name().starts_with("OpenCV")) GTEST_SKIP() << "this build has OpenCV";
  EXPECT_ERROR(VideoReader("clip.mp4", 1), unsupported_format, "no OpenCV", "HYDRASCOPE_OPENCV=ON");
}

}  // namespace
}  // namespace hydrascope::image
