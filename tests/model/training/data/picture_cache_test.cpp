#include "model/training/data/picture_cache.h"

#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrascope::model::training {
namespace {

using testing::ppm;

constexpr image::DecodeOptions kAnyPixels{.max_pixels = 1 << 20};

TEST(PictureCache, KeepsWhatThereIsRoomFor) {
  const testing::TemporaryFolder folder;
  const auto a = folder.write("a", ppm(10, 10));
  const auto b = folder.write("b", ppm(20, 10));
  const auto c = folder.write("c", ppm(10, 10, 3));
  PictureCache cache(700, 0, kAnyPixels);
  const auto first = cache.load(a);
  EXPECT_EQ(cache.bytes(), 300);
  EXPECT_EQ(cache.load(b)->width, 20);  // 600 bytes more find no room
  EXPECT_EQ(cache.bytes(), 300);
  static_cast<void>(cache.load(c));
  EXPECT_EQ(cache.bytes(), 600);
  folder.write("a", "gone");
  folder.write("b", "gone");
  EXPECT_EQ(cache.load(a), first);
  EXPECT_ERROR(cache.load(b), unsupported_format, "");
}

TEST(PictureCache, ReducesTheShorterSideKeptOrNot) {
  const testing::TemporaryFolder folder;
  const auto wide = folder.write("wide", ppm(90, 40));
  const auto tall = folder.write("tall", ppm(30, 61));
  const auto small = folder.write("small", ppm(20, 100));
  for (const std::int64_t room : {0, 1 << 20}) {
    PictureCache cache(room, 20, kAnyPixels);
    EXPECT_EQ(cache.load(wide)->width, 45);
    EXPECT_EQ(cache.load(wide)->height, 20);
    EXPECT_EQ(cache.load(tall)->width, 20);
    EXPECT_EQ(cache.load(tall)->height, 41);  // 40.67
    EXPECT_EQ(cache.load(small)->height, 100);
    EXPECT_EQ(cache.bytes(), room == 0 ? 0 : 3 * (45 * 20 + 20 * 41 + 20 * 100));
  }
}

TEST(PictureCache, PicturesAreUprightWhereThatIsAskedFor) {
  const auto turned = testing::data_folder("../corpus/pictures/good") /
                      "exif.png";  // orientation 8: a quarter turn
  PictureCache as_stored(0, 0, {.apply_exif = false});
  PictureCache upright(0, 0, {.apply_exif = true});
  const auto stored = as_stored.load(turned);
  ASSERT_NE(stored->width, stored->height);
  EXPECT_EQ(upright.load(turned)->width, stored->height);
  EXPECT_EQ(upright.load(turned)->height, stored->width);
}

TEST(PictureCache, RefusesPicturesThatAreTooLarge) {
  const testing::TemporaryFolder folder;
  PictureCache cache(0, 0, {.max_pixels = 99});
  EXPECT_ERROR(cache.load(folder.write("a", ppm(10, 10))), too_large, "10x10");
}

}  // namespace
}  // namespace hydrascope::model::training
