// `hydrascope visualize` with a video, interrupted.
#include "tests/app/cli/visualize/visualize_cli.h"

namespace hydrascope::testing {
namespace visualize_video_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// An AVI of so many frames without compression, each of 32 x 32 pixels of one grey, 25 a second.
std::string plain_avi(int frames) {
  const auto number = [](std::uint32_t value, int bytes = 4) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const auto chunk = [&](const std::string& name, const std::string& content) {
    return name + number(static_cast<std::uint32_t>(content.size())) + content;
  };
  constexpr std::uint32_t kEdge = 32;
  constexpr std::uint32_t kBytes = kEdge * kEdge * 3;
  const auto count = static_cast<std::uint32_t>(frames);
  const std::string main = number(40'000) + std::string(12, '\0') + number(count) + number(0) +
                           number(1) + number(kBytes) + number(kEdge) + number(kEdge) +
                           std::string(16, '\0');
  const std::string stream = "vidsDIB " + std::string(12, '\0') + number(1) + number(25) +
                             number(0) + number(count) + number(kBytes) + std::string(16, '\0');
  const std::string format = number(40) + number(kEdge) + number(kEdge) + number(1, 2) +
                             number(24, 2) + number(0) + number(kBytes) + std::string(16, '\0');
  std::string movie = "movi";
  for (int i = 0; i < frames; ++i)
    movie += chunk("00db", std::string(kBytes, static_cast<char>(i % 100)));
  const std::string header = "hdrl" + chunk("avih", main) +
                             chunk("LIST", "strl" + chunk("strh", stream) + chunk("strf", format));
  return chunk("RIFF", "AVI " + chunk("LIST", header) + chunk("LIST", movie));
}

TEST_F(VisualizeCliTest, AnInterruptLeavesAPlayableVideo) {
  folder_.write("clip.avi", plain_avi(200));
  Program program({"visualize", "clip.avi", "--format jsonl --device cpu -b 1 -o out --save-raw"},
                  {"", folder_.path(), {}});
  for (int i = 0; i < 6000 && program.output_so_far().empty(); ++i) usleep(5'000);
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  if (outcome.out.find("OpenCV") != std::string::npos) GTEST_SKIP() << outcome.out.substr(0, 200);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const std::vector<Json> frames = outcome.records();
  ASSERT_GE(frames.size(), 1U);
  ASSERT_LT(frames.size(), 200U) << "it was stopped in the middle";
  EXPECT_EQ(files_in("out"), 2U) << "nothing temporary is left";
  const std::string written = frames.front().at("files").at("heatmap");
  EXPECT_EQ(records({written, "-o", "again"}).size(), frames.size());
  EXPECT_NE(read_bytes(path(frames.front().at("files").at("map")))
                .find("'shape': (" + std::to_string(frames.size()) + ", 14, 14), }"),
            std::string::npos);
}

}  // namespace visualize_video_cli_test
}  // namespace hydrascope::testing
