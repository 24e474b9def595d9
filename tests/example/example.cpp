// example PICTURE...: what is on each picture, and which part of it says so.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <hydrascope/hydrascope.h>
#include <iterator>
#include <vector>

namespace {

/// The place of a map's largest value: the middle of that cell, in pixels of the picture.
void say_where(const hydrascope_map& map) {
  const float* end = map.values + map.rows * map.columns;
  const auto hottest = std::max_element(map.values, end) - map.values;
  const double column = static_cast<double>(hottest % map.columns) + 0.5;
  const double row = static_cast<double>(hottest / map.columns) + 0.5;
  std::printf("  look at x %.0f, y %.0f\n",
              map.left + column * map.width / static_cast<double>(map.columns),
              map.top + row * map.height / static_cast<double>(map.rows));
}

}  // namespace

int main(int argc, char** argv) try {
  const hydrascope::Model model({"--device", "cpu"}, HYDRASCOPE_MAPS);
  std::vector<std::vector<char>> files;
  std::vector<hydrascope_picture> pictures;
  for (int i = 1; i < argc; ++i) {
    std::ifstream stream(argv[i], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    pictures.push_back(hydrascope::picture_in_memory(files.back().data(), files.back().size()));
    pictures.back().name = argv[i];
  }
  for (const hydrascope::Answer& answer : model.ask(pictures, {}, HYDRASCOPE_MAPS)) {
    const hydrascope_prediction best = answer.value().top().front();
    std::printf("%s %.1f %%\n", best.label, 100 * best.probability);
    say_where(answer.maps().front());
  }
  return 0;
} catch (const hydrascope::Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.code().c_str(), error.what());
  return 1;
}
