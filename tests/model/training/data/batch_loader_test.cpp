#include "model/training/data/batch_loader.h"

#include "model/training/data/picture_cache.h"
#include "model/transform.h"
#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

using testing::ppm;
using testing::TemporaryFolder;

/// Pictures of many sizes, some beyond what is kept.
std::vector<TrainingPicture> write_pictures(const TemporaryFolder& folder, int count) {
  std::vector<TrainingPicture> pictures;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i) + ".ppm";
    pictures.push_back(
        {.file = folder.write(name, ppm(40 + i * 5, 30 + i * 7 % 50, static_cast<unsigned>(i))),
         .target = i});
  }
  return pictures;
}

LoaderOptions small_batches() {
  LoaderOptions options;
  options.sampler.batch_size = 4;
  options.augment.size = {24, 32};
  options.cache_side = 48;
  return options;
}

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.index, b.index);
  EXPECT_TRUE(at::equal(a.targets, b.targets));
  EXPECT_TRUE(at::equal(a.images, b.images));
  ASSERT_EQ(a.views.defined(), b.views.defined());
  if (a.views.defined()) {
    EXPECT_TRUE(at::equal(a.views, b.views));
  }
}

TEST(BatchLoader, GivesEpochsOfBatches) {
  const TemporaryFolder folder;
  BatchLoader loader(write_pictures(folder, 18), small_batches());
  ASSERT_EQ(loader.batches_per_epoch(), 4);
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < 9; ++i) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.epoch, i / 4);
    EXPECT_EQ(batch.index, i % 4);
    ASSERT_EQ(batch.images.sizes(), (at::IntArrayRef{4, 3, 24, 32}));
    ASSERT_EQ(batch.images.scalar_type(), at::kFloat);
    EXPECT_TRUE(batch.images.isfinite().all().item<bool>());
    if (i < 4)
      for (int k = 0; k < 4; ++k) ++counts[batch.targets[k].item<std::int64_t>()];
  }
  EXPECT_EQ(counts.size(), 16);
  EXPECT_GE(loader.take_wait_seconds(), 0);
  EXPECT_EQ(loader.take_wait_seconds(), 0);
}

// Neither workers nor memory nor batches prepared ahead may change a bit.
TEST(BatchLoader, ABatchDependsOnItsPlaceAlone) {
  const TemporaryFolder folder;
  const auto pictures = write_pictures(folder, 14);
  BatchLoader reference(pictures, small_batches());
  std::vector<Batch> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(reference.next());
  EXPECT_FALSE(at::equal(expected[0].images, expected[1].images));

  LoaderOptions many = small_batches();
  many.workers = 4;
  many.batches_ahead = 7;
  LoaderOptions without_memory = small_batches();
  without_memory.cache_bytes = 0;
  LoaderOptions little_memory = small_batches();
  little_memory.cache_bytes = 20000;
  little_memory.workers = 2;
  for (const LoaderOptions& options : {many, without_memory, little_memory}) {
    BatchLoader loader(pictures, options);
    for (const Batch& batch : expected) expect_same(loader.next(), batch);
  }
}

TEST(BatchLoader, SeekingIsWalking) {
  const TemporaryFolder folder;
  const auto pictures = write_pictures(folder, 13);
  const ResolutionOptions views{.sizes = {{24, 32}, {24, 24}, {48, 64}},
                                .backgrounds = {folder.write("b.ppm", ppm(200, 100, 99))},
                                .least_part = 12};
  for (const ResolutionOptions& resolutions : {ResolutionOptions{}, views}) {
    LoaderOptions options = small_batches();
    options.resolutions = resolutions;
    BatchLoader walking(pictures, options);
    std::vector<Batch> walked;
    for (int i = 0; i < 9; ++i) walked.push_back(walking.next());
    options.workers = 3;
    options.cache_bytes = 0;
    BatchLoader loader(pictures, options);
    for (const int place : {5, 1, 7, 0, 0, 8}) {
      loader.seek(place / 3, place % 3);
      for (int i = place; i < std::min(place + 2, 9); ++i) expect_same(loader.next(), walked[i]);
    }
    EXPECT_ERROR(loader.seek(0, 3), invalid_argument, "batch 3");
  }
}

TEST(BatchLoader, RanksSeeWhatOneProcessSees) {
  const TemporaryFolder folder;
  const auto pictures = write_pictures(folder, 20);
  LoaderOptions whole = small_batches();
  whole.sampler.batch_size = 8;
  LoaderOptions rank0 = small_batches();
  rank0.sampler.world_size = 2;
  LoaderOptions rank1 = rank0;
  rank1.sampler.rank = 1;
  BatchLoader one(pictures, whole);
  BatchLoader first(pictures, rank0);
  BatchLoader second(pictures, rank1);
  for (int i = 0; i < 5; ++i) {
    const Batch expected = one.next();
    const Batch a = first.next();
    const Batch b = second.next();
    EXPECT_TRUE(at::equal(at::cat({a.images, b.images}), expected.images));
    EXPECT_TRUE(at::equal(at::cat({a.targets, b.targets}), expected.targets));
  }
}

TEST(BatchLoader, SeedAndEpochChangeWhatIsSeen) {
  const TemporaryFolder folder;
  auto one_picture = write_pictures(folder, 1);
  LoaderOptions options = small_batches();
  BatchLoader loader(one_picture, options);
  const Batch first = loader.next();
  const Batch second = loader.next();
  EXPECT_FALSE(at::equal(first.images, second.images));
  EXPECT_FALSE(at::equal(first.images[0], first.images[1]));
  options.sampler.seed = 43;
  EXPECT_FALSE(at::equal(BatchLoader(one_picture, options).next().images, first.images));
}

TEST(BatchLoader, WithoutLabelsThereAreNoTargets) {
  const TemporaryFolder folder;
  auto pictures = write_pictures(folder, 5);
  pictures[3].target = -1;
  EXPECT_FALSE(BatchLoader(pictures, small_batches()).next().targets.defined());
}

TEST(BatchLoader, UnreadablePicturesAreToldOnceAndReplacedByTheNext) {
  const TemporaryFolder folder;
  auto pictures = write_pictures(folder, 8);
  folder.write("2.ppm", "P6\n9 9\n255\nshort");
  pictures[3].file = folder.path() / "absent.ppm";
  pictures[7].file = folder.path();
  for (const int workers : {1, 4}) {
    std::map<std::string, int> told;
    LoaderOptions options = small_batches();
    options.workers = workers;
    options.on_failure = [&](const std::string& file, const std::string& message) {
      EXPECT_FALSE(message.empty());
      ++told[file];
    };
    std::map<std::int64_t, int> counts;
    {
      BatchLoader loader(pictures, options);
      for (int i = 0; i < 6; ++i) {
        const Batch batch = loader.next();
        for (int k = 0; k < 4; ++k) ++counts[batch.targets[k].item<std::int64_t>()];
      }
    }
    const std::map<std::int64_t, int> expected{{0, 6}, {1, 3}, {4, 9}, {5, 3}, {6, 3}};
    EXPECT_EQ(counts, expected);
    ASSERT_EQ(told.size(), 3);
    for (const auto& [file, count] : told) EXPECT_EQ(count, 1) << file;
  }
}

TEST(BatchLoader, UnreadableBackgroundsAreToldOnceAndReplacedByTheNext) {
  const TemporaryFolder folder;
  const auto pictures = write_pictures(folder, 8);
  LoaderOptions options = small_batches();
  options.augment.size = {16, 16};
  options.resolutions = {.sizes = {{64, 64}}, .scene_share = 1, .least_part = 16};
  for (const char* name : {"absent.ppm", "background.ppm"})
    options.resolutions.backgrounds.push_back(folder.path() / name);
  folder.write("background.ppm", ppm(90, 80, 1));
  std::vector<std::string> told;
  options.on_failure = [&](const std::string& file, const std::string&) { told.push_back(file); };
  const Batch drawn = BatchLoader(pictures, options).next();
  EXPECT_TRUE(drawn.views.defined());
  options.resolutions.backgrounds[0] = options.resolutions.backgrounds[1];
  EXPECT_TRUE(at::equal(BatchLoader(pictures, options).next().views, drawn.views));
  EXPECT_EQ(told, std::vector{(folder.path() / "absent.ppm").string()});
  options.resolutions.backgrounds = {folder.path() / "absent.ppm"};
  EXPECT_ERROR(BatchLoader(pictures, options).next(), failed, "none of the 1 backgrounds");
}

TEST(BatchLoader, NothingToReadReachesNext) {
  LoaderOptions options = small_batches();
  options.workers = 2;
  BatchLoader loader({{.file = "/absent/a.png"}, {.file = "/absent/b.png"}}, options);
  EXPECT_ERROR(loader.next(), failed, "none of the 2 pictures");
  EXPECT_ERROR(loader.next(), failed, "none of the 2 pictures");
  loader.seek(1, 0);
  EXPECT_ERROR(loader.next(), failed, "none of the 2 pictures");
}

TEST(BatchLoader, AWorkersExceptionReachesNext) {
  LoaderOptions options = small_batches();
  options.on_failure = [](const std::string&, const std::string&) {
    throw std::runtime_error("the disk of the log is full");
  };
  BatchLoader loader({{.file = "/absent/a.png"}}, options);
  EXPECT_THROW(loader.next(), std::runtime_error);
}

// A batch that was prepared before `seek` is dropped; what made it fail must not be.
TEST(BatchLoader, AnErrorOfADroppedBatchComesAgain) {
  const TemporaryFolder folder;
  auto pictures = write_pictures(folder, 4);
  pictures[2].file = folder.path() / "absent.ppm";
  LoaderOptions options = small_batches();
  options.on_failure = [](const std::string& file, const std::string& message) {
    throw Error(ErrorCode::failed, message, file);
  };
  BatchLoader loader(pictures, options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(loader.next(), failed, "absent.ppm");
    loader.seek(i, 0);
  }
}

TEST(BatchLoader, EndsInTheMiddleOfPreparing) {
  const TemporaryFolder folder;
  const auto pictures = write_pictures(folder, 20);
  LoaderOptions options = small_batches();
  options.workers = 4;
  for (int i = 0; i < 30; ++i) {
    BatchLoader loader(pictures, options);
    if (i % 3 == 1) loader.next();
    if (i % 3 == 2) loader.seek(2, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
  }
}

TEST(BatchLoader, RefusesOptionsWithoutSense) {
  const std::vector<TrainingPicture> pictures(4);
  LoaderOptions options;
  options.augment.scale = {0.5, 0.1};
  EXPECT_ERROR(BatchLoader(pictures, options), invalid_argument, "scale");
  options = {};
  options.augment.hflip = 1.5;
  EXPECT_ERROR(BatchLoader(pictures, options), invalid_argument, "probabilities");
  EXPECT_ERROR(BatchLoader({}, {}), invalid_argument, "no pictures");
}

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
