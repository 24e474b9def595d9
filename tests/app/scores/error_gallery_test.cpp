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
using testing::read_bytes;
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
  const TemporaryFolder folder;
  ErrorGallery gallery(folder.path() / "errors", 3);
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

TEST(ErrorGalleryTest, WritesSheetsAndATable) {
  const TemporaryFolder folder;
  LabelledSet set;
  for (int i = 0; i < 22; ++i) {
    const std::string name = std::to_string(i) + ".ppm";
    set.pictures.push_back({folder.write(name, ppm(40, 30, static_cast<unsigned>(i))), 0});
  }
  folder.write("3.ppm", "no picture");
  const auto out = folder.path() / "a/errors";
  ErrorGallery gallery(out, 22);
  for (std::size_t i = 0; i < 22; ++i) gallery.add(error_of(i, 0.9 - 0.01 * double(i)));
  std::vector<std::string> notices;
  gallery.write(set, image::Labels::parse("a\nb\n", "two"), {},
                [&](const std::string& text) { notices.push_back(text); });
  EXPECT_THAT(notices, ElementsAre(HasSubstr("3.ppm")));
  const std::string table = read_bytes(out / "errors.csv");
  EXPECT_THAT(table, HasSubstr("file,target,target_label,target_probability,predicted,"));
  EXPECT_THAT(table, HasSubstr("0.ppm,0,a,0.125,1,b,0.9,sheet-001.jpg\n"));
  EXPECT_THAT(table, HasSubstr("21.ppm,0,a,0.125,1,b,0.69,sheet-002.jpg\n"));
  const image::Picture first = image::read_picture(out / "sheet-001.jpg", {});
  const image::Picture second = image::read_picture(out / "sheet-002.jpg", {});
  EXPECT_GT(first.width, 5 * 256);
  EXPECT_GT(first.height, 3 * second.height / 2);
  EXPECT_FALSE(std::filesystem::exists(out / "sheet-003.jpg"));
  // Its own files are replaced, and no others.
  ErrorGallery again(out, 22);
  again.write(set, image::Labels::parse("a\nb\n", "two"), {}, [](const std::string&) {});
  EXPECT_FALSE(std::filesystem::exists(out / "sheet-001.jpg"));
  EXPECT_FALSE(std::filesystem::exists(out / "sheet-002.jpg"));
  folder.write("a/errors/sheet-002.jpg", ppm(4, 3));
  EXPECT_ERROR(ErrorGallery(out, 22), invalid_argument, "would replace a file", "sheet-002.jpg");
}

TEST(ErrorGalleryTest, WithoutErrorsTheTableIsEmpty) {
  const TemporaryFolder folder;
  ErrorGallery gallery(folder.path(), 5);
  gallery.write({}, image::Labels::numbered(2), {}, [](const std::string&) {});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "errors.csv"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "sheet-001.jpg"));
}

}  // namespace
}  // namespace hydrascope::app
