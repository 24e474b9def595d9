// `hydrascope visualize` with videos, or with pictures that become one.
#include "tests/app/cli/visualize/visualize_cli.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace hydrascope::testing {
namespace visualize_video_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST_F(VisualizeCliTest, AVideoInAndAVideoOut) {
  const std::string video =
      (fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/videos/six_frames.avi").string();
  const Outcome outcome = visualize({video, "--save-raw --smooth 0.5"});
  if (outcome.out.find("unsupported_format") != std::string::npos)
    GTEST_SKIP() << "this build has no OpenCV";
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const std::vector<Json> frames = outcome.records();
  ASSERT_EQ(frames.size(), 6U);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].at("frame"), i);
    EXPECT_EQ(frames[i].at("files").at("heatmap"), "heatmaps/six_frames.heatmap.mp4");
  }
  EXPECT_NE(read_bytes(path("heatmaps/six_frames.map.npy")).find("'shape': (6, 14, 14), }"),
            std::string::npos);
  // What was written is a video with as many frames.
  EXPECT_EQ(records({"heatmaps/six_frames.heatmap.mp4 --video-stride 2 -o again"}).size(), 3U);
}

TEST_F(VisualizeCliTest, AVideoOfUnevenFramesKeepsItsTimes) {
  const std::string video =
      (fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/videos/uneven.mp4").string();
  const Outcome outcome = visualize({video, "--video-stride 10 --html page.html"});
  if (outcome.out.find("unsupported_format") != std::string::npos)
    GTEST_SKIP() << "this build has no OpenCV";
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  std::vector<double> times;
  for (const Json& record : outcome.records()) times.push_back(record.at("time"));
  EXPECT_EQ(times, (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  const std::string page = read_bytes(path("page.html"));
  EXPECT_NE(page.find("uneven.mp4 frame 40 at 1.000 s"), std::string::npos);
  EXPECT_EQ(page.find("uneven.mp4 frame 10 "), std::string::npos) << "at most one in a second";
}

TEST_F(VisualizeCliTest, AVideoThatWasCutFailsBehindItsFrames) {
  const std::string whole =
      read_bytes(fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/videos/six_frames.avi");
  folder_.write("cut.avi", whole.substr(0, 2600));
  const Outcome outcome = visualize({"cut.avi"});
  if (outcome.out.find("unsupported_format") != std::string::npos)
    GTEST_SKIP() << "this build has no OpenCV";
  EXPECT_EQ(outcome.code, 3) << outcome.err << outcome.out;
  const std::vector<Json> records = outcome.records();
  ASSERT_GE(records.size(), 2U);
  EXPECT_LT(records.size(), 7U);
  for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].at("frame"), i);
  EXPECT_EQ(records.back().at("error").at("code"), "decode_failed");
  EXPECT_NE(records.back().at("error").at("message").get<std::string>().find(
                std::to_string(records.size() - 1) + " of 6"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(path("heatmaps/cut.heatmap.mp4"))) << "what there is can be played";
}

TEST_F(VisualizeCliTest, PicturesBecomeFramesOfOneVideo) {
  for (const char* name : {"frames/1.ppm", "frames/2.ppm", "frames/3.ppm"}) picture(name, 64, 48);
  picture("frames/4.ppm", 48, 64);
  const Outcome outcome = visualize({"frames --frames-as-video 5 --layer 0,11"});
  if (outcome.out.find("OpenCV") != std::string::npos) GTEST_SKIP() << outcome.out;
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const std::vector<Json> maps = outcome.records();
  ASSERT_EQ(maps.size(), 8U);
  EXPECT_EQ(maps[7].at("frame"), 3);
  EXPECT_EQ(maps[7].at("files").at("heatmap"), "heatmaps/frames.heatmap.mp4");
  EXPECT_GT(fs::file_size(path("heatmaps/frames.heatmap.mp4")), 0U);
  EXPECT_EQ(files_in("heatmaps"), 1U);
}

TEST_F(VisualizeCliTest, FramesComeByNumberAndOneASecondIsOnThePage) {
  for (int i = 8; i < 13; ++i)
    picture("frames/frame_" + std::to_string(i) + ".ppm", 64, 48, static_cast<unsigned>(i));
  const Outcome outcome = visualize({"frames --frames-as-video 2 --html page.html"});
  if (outcome.out.find("OpenCV") != std::string::npos) GTEST_SKIP() << outcome.out;
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const std::vector<Json> frames = outcome.records();
  ASSERT_EQ(frames.size(), 5U);
  const std::string page = read_bytes(path("page.html"));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].at("input"), "frames/frame_" + std::to_string(i + 8) + ".ppm");
    const std::string name = ".ppm frame " + std::to_string(i);
    EXPECT_EQ(page.find(name) != std::string::npos, i % 2 == 0) << name;
  }
}

TEST_F(VisualizeCliTest, AFrameWithAnotherGridFailsAlone) {
  picture("frames/1.ppm", 64, 48);
  picture("frames/2.ppm", 48, 64);
  picture("frames/3.ppm", 64, 48);
  picture("other.ppm", 32, 32);
  const Outcome outcome = visualize({"frames other.ppm --frames-as-video 5 --native --save-raw"});
  if (outcome.out.find("OpenCV") != std::string::npos) GTEST_SKIP() << outcome.out;
  EXPECT_EQ(outcome.code, 3) << outcome.err << outcome.out;
  const std::vector<Json> frames = outcome.records();
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_TRUE(frames[0].contains("grid"));
  EXPECT_EQ(frames[1].at("error").at("code"), "unsupported_format");
  EXPECT_TRUE(frames[2].contains("grid"));
  EXPECT_TRUE(frames[3].contains("error"));
  EXPECT_NE(read_bytes(path("heatmaps/frames.map.npy")).find("'shape': (2, 3, 4), }"),
            std::string::npos);
}

TEST_F(VisualizeCliTest, AnInterruptLeavesAPlayableVideo) {
  picture("p.ppm", 64, 48);
  std::string list;
  for (int i = 0; i < 200; ++i) list += "p.ppm\n";
  folder_.write("list.txt", list);
  const Outcome made = visualize({"@list.txt --frames-as-video 25 --img-size 32 -o ."});
  if (made.out.find("OpenCV") != std::string::npos) GTEST_SKIP() << made.out.substr(0, 200);
  ASSERT_EQ(made.code, 0) << made.err;
  const auto videos = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().extension() == ".mp4") names.push_back(entry.path().filename());
    return names;
  };
  ASSERT_EQ(videos().size(), 1U);
  Program program(
      {"visualize", videos().front(), "--format jsonl --device cpu -b 1 -o out --save-raw"},
      {"", folder_.path(), {}});
  for (int i = 0; i < 6000 && program.output_so_far().empty(); ++i) usleep(5'000);
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const std::vector<Json> frames = outcome.records();
  ASSERT_GE(frames.size(), 1U);
  ASSERT_LT(frames.size(), 200U) << "it was stopped in the middle";
  EXPECT_EQ(files_in("out"), 2U) << "nothing temporary is left";
  const std::string written = frames.front().at("files").at("heatmap");
  EXPECT_EQ(records({written, "--img-size", "32", "-o", "again"}).size(), frames.size());
  EXPECT_NE(read_bytes(path(frames.front().at("files").at("map")))
                .find("'shape': (" + std::to_string(frames.size()) + ", 14, 14), }"),
            std::string::npos);
}

}  // namespace visualize_video_cli_test
}  // namespace hydrascope::testing
