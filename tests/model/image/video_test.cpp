#include "model/image/video.h"

#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

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
  while (const std::optional<Picture> picture = video.next()) {
    read.push_back(video.frame_index());
    EXPECT_EQ(picture->width, 32);
    EXPECT_EQ(picture->height, 16);
    EXPECT_NEAR(picture->rgb.at(0), 40.0 * static_cast<double>(video.frame_index()), 6);
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
}

TEST_F(Video, ErrorsComeWithoutOutput) {
  const testing::TemporaryFolder folder;
  const auto text = folder.write("text.mp4", "no video");
  ::testing::internal::CaptureStderr();
  EXPECT_ERROR(VideoReader(folder.path() / "nowhere.mp4", 1), not_found, "nowhere.mp4");
  EXPECT_ERROR(VideoReader(text, 1), decode_failed, "text.mp4");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(Video, ATruncatedFileEndsEarly) {
  const testing::TemporaryFolder folder;
  const std::string whole = read_file(file_);
  VideoReader video(folder.write("cut.avi", std::string_view(whole).substr(0, whole.size() / 2)),
                    1);
  const std::size_t frames = indices(video).size();
  EXPECT_GE(frames, 1U);
  EXPECT_LT(frames, 6U);
}

TEST(VideoWithoutOpenCv, SaysSo) {
  if (decoder_name().starts_with("OpenCV")) GTEST_SKIP() << "this build has OpenCV";
  EXPECT_ERROR(VideoReader("clip.mp4", 1), unsupported_format, "no OpenCV", "HYDRASCOPE_OPENCV=ON");
}

}  // namespace
}  // namespace hydrascope::image
