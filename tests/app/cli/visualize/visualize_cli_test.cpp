#include "tests/app/cli/visualize/visualize_cli.h"

#include <algorithm>

namespace hydrascope::testing {
namespace visualize_cli_test {

namespace fs = std::filesystem;

/// The objects of the bundled pictures have to be where the heat is.
TEST_F(VisualizeCliTest, TheHeatLiesOnTheObject) {
  struct Case {
    const char* picture;
    const char* label;
    // Part of the 14 x 14 cells, half-open, that holds the object and little else.
    int top, left, bottom, right;
  };
  for (const auto& [name, label, top, left, bottom, right] :
       {Case{"oakland-zoo-otters.jpg", "otter", 3, 1, 11, 14},
        Case{"otter-head.jpg", "otter", 8, 4, 14, 14},
        Case{"lake-sherburne.jpg", "alp", 2, 0, 10, 14}}) {
    SCOPED_TRACE(name);
    const auto record =
        records({asset("images/" + std::string(name)), "--save-raw", "--views", "whole"}).at(0);
    EXPECT_EQ(record.at("class").at("label"), label);
    const Npy map(path(record.at("files").at("map")));
    ASSERT_EQ(map.values.size(), 196U);
    double inside = 0;
    double all = 0;
    for (int cell = 0; cell < 196; ++cell) {
      const int row = cell / 14;
      const int column = cell % 14;
      const double heat = std::max(0.0F, map.values[static_cast<std::size_t>(cell)]);
      all += heat;
      if (row >= top && row < bottom && column >= left && column < right) inside += heat;
    }
    EXPECT_GT(inside / all, 0.85);
  }
}

TEST_F(VisualizeCliTest, AnInterruptWritesWhatIsFinished) {
  picture("p.ppm", 64, 64);
  Program program(
      {"visualize", "-", "--format", "jsonl", "--device", "cpu", "-b", "1", "--html", "page.html"},
      {"", folder_.path(), {}});
  program.type("p.ppm\n");
  for (int i = 0; i < 600 && program.output_so_far().empty(); ++i) usleep(50'000);
  program.signal(SIGINT);
  const Outcome outcome = program.wait_with_open_input();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.records().size(), 1U);
  EXPECT_EQ(read_bytes(path("heatmaps/p.heatmap.png")).substr(1, 3), "PNG");
  EXPECT_TRUE(fs::exists(path("page.html"))) << "the page holds what was finished";
}

}  // namespace visualize_cli_test
}  // namespace hydrascope::testing
