#include "model/training/data/batch_loader.h"
#include "model/transform.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

image::TransformConfig small_transform() {
  image::TransformConfig transform;
  transform.img_size = {20, 20};
  transform.patch_size = 8;  // padded to 24 x 24
  return transform;
}

TEST(HeldOutImages, AreWhatEvaluationSees) {
  const testing::TemporaryFolder folder;
  std::vector<TrainingPicture> pictures;
  for (int i = 0; i < 7; ++i)
    pictures.push_back(
        {.file = folder.write(std::to_string(i), testing::ppm(50 + i, 40, i)), .target = 10 + i});
  folder.write("4", "no picture");
  std::vector<std::string> told;
  const auto report = [&](const std::string& file, const std::string&) { told.push_back(file); };
  HeldOutImages first(pictures, small_transform(), 3, report);
  const HeldOutImages images = std::move(first);
  EXPECT_EQ(told, std::vector{pictures[4].file.string()});
  ASSERT_EQ(images.count(), 6);

  const Batch batch = images.batch(2, 3);  // 2, 3 and 5
  ASSERT_EQ(batch.images.sizes(), (at::IntArrayRef{3, 3, 24, 24}));
  const std::vector<int> expected{2, 3, 5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.targets[i].item<std::int64_t>(), 10 + expected[i]);
    const image::Picture picture = image::read_picture(pictures[expected[i]].file, {});
    EXPECT_TRUE(at::equal(batch.images[i], image::apply_transform(small_transform(), picture)));
  }
}

TEST(HeldOutImages, MayHaveNoLabels) {
  const testing::TemporaryFolder folder;
  const HeldOutImages images({{.file = folder.write("a", testing::ppm(30, 30))}}, small_transform(),
                             1);
  EXPECT_FALSE(images.batch(0, 1).targets.defined());
}

TEST(HeldOutImages, RefuseWhatThereIsNot) {
  const HeldOutImages none({}, small_transform(), 2);
  EXPECT_EQ(none.count(), 0);
  EXPECT_ERROR(none.batch(0, 1), invalid_argument, "of 0");
  image::TransformConfig native;
  native.views = image::Views::native;
  EXPECT_ERROR(HeldOutImages({}, native, 1), invalid_argument, "one size");
}

}  // namespace
}  // namespace hydrascope::model::training
