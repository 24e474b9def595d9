// The lists of frames in containers of video, and whether a file holds several pictures.
#include "model/image/several_pictures.h"
#include "model/image/video_index.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cmath>
#include <sstream>

using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream file{std::string(hydrascope::fuzz::as_text(data, size))};
  const hydrascope::image::VideoIndex index = hydrascope::image::read_video_index(file);
  require(index.times.size() <= size, "a frame takes a byte at least");
  require(std::ranges::is_sorted(index.times), "times ascend");
  require(index.times.empty() || index.times.front() == 0, "the first frame is at 0");
  require(std::ranges::all_of(index.times, [](double time) { return std::isfinite(time); }),
          "times are numbers");
  require(index.num_frames >= 0 && index.duration >= 0, "counts are not negative");
  static_cast<void>(hydrascope::image::holds_several_pictures(file));
  return 0;
}
