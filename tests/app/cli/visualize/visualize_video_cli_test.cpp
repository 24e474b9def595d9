// `hydrascope visualize` with a video, interrupted.
#include "tests/app/cli/visualize/visualize_cli.h"

namespace hydrascope::testing {
namespace visualize_video_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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
