#include "model/image/several_pictures.h"

#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace hydrascope::image {
namespace {

using testing::data_folder;
using testing::read_file;

bool has_several(const std::string& bytes) {
  std::istringstream stream(bytes);
  return holds_several_pictures(stream);
}

/// As Pillow's `n_frames` says, but for the second picture of a stereo camera's or telephone's JPEG.
TEST(SeveralPictures, OfTheFilesOfPillow) {
  const std::set<std::string> several{"animated.webp",       "first_of_two.gif", "animated.png",
                                      "animated_lossy.webp", "frames.gif",       "pages.tif"};
  int files = 0;
  for (const char* folder : {"good", "odd"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(data_folder("../corpus/pictures") / folder)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      EXPECT_EQ(holds_several_pictures(stream), several.contains(entry.path().filename().string()))
          << entry.path();
      ++files;
    }
  }
  EXPECT_GT(files, 30);
}

TEST(SeveralPictures, FilesThatEndAnywhereAreRead) {
  for (const char* name : {"odd/pages.tif", "odd/frames.gif", "odd/animated.png"}) {
    const std::string whole = read_file(data_folder("../corpus/pictures") / name);
    bool known = false;
    for (std::size_t size = 0; size <= whole.size(); size += 7) {
      const bool now = has_several(whole.substr(0, size));
      EXPECT_TRUE(now || !known) << "more bytes do not unsay it";
      known = now;
    }
  }
  EXPECT_FALSE(has_several(""));
  EXPECT_FALSE(has_several("GIF89a"));
  EXPECT_FALSE(has_several(std::string("II*\0\x08\0\0\0\xFF\xFF", 10)));
}

}  // namespace
}  // namespace hydrascope::image
