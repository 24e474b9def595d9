#include "app/scores/error_gallery.h"

#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ppm;
using testing::TemporaryFolder;

ScoredPicture error_of(std::size_t index, double confidence) {
  ScoredPicture scored;
  scored.index = index;
  scored.target = 0;
  scored.predicted = 1;
  scored.rank = 2;
  scored.confidence = confidence;
  scored.target_probability = 0.125;
  return scored;
}

std::vector<std::size_t> indices_of(const ErrorGallery& gallery) {
  std::vector<std::size_t> indices;
  for (const ScoredPicture& error : gallery.worst()) indices.push_back(error.index);
  return indices;
}

TEST(ErrorGalleryTest, TheWorstStay) {
  ErrorGallery gallery(3);
  gallery.add(error_of(0, 0.5));
  gallery.add(error_of(1, 0.9));
  gallery.add(error_of(2, 0.5));
  gallery.add(error_of(3, 0.7));
  ScoredPicture right = error_of(4, 0.99);
  right.predicted = 0;
  right.rank = 1;
  gallery.add(right);
  EXPECT_THAT(indices_of(gallery), ElementsAre(1, 3, 0));
}

TEST(ErrorGalleryTest, PicturesAreDecodedAnew) {
  const TemporaryFolder folder;
  LabelledSet set;
  set.pictures = {{folder.write("0.ppm", ppm(400, 300)), 0}, {folder.write("1.ppm", "none"), 0}};
  ErrorGallery gallery;
  gallery.add(error_of(0, 0.9));
  gallery.add(error_of(1, 0.8));
  std::vector<std::string> notices;
  const auto pictures = gallery.pictures(set, image::Labels::parse("a\nb\n", "two"), {},
                                         [&](const std::string& text) { notices.push_back(text); });
  ASSERT_EQ(pictures.size(), 1U);
  EXPECT_EQ(pictures[0].picture.width, 256);
  EXPECT_THAT(pictures[0].caption, ElementsAre("is a  12.5 %", "taken for b  90.0 %"));
  EXPECT_THAT(notices, ElementsAre(HasSubstr("1.ppm")));
}

}  // namespace
}  // namespace hydrascope::app
