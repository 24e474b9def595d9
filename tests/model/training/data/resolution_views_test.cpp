#include "model/training/data/resolution_views.h"

#include "model/training/data/batch_loader.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

using testing::ppm;
using testing::TemporaryFolder;

image::Picture plain(int width, int height, std::uint8_t value) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3, value)};
}

AugmentOptions unnormalised(image::Size size) {
  AugmentOptions options;
  options.size = size;
  options.mean = {0, 0, 0};
  options.stddev = {1.0 / 255, 1.0 / 255, 1.0 / 255};
  return options;
}

TEST(ResolutionViews, SizesShareTheComputation) {
  const ResolutionOptions options{.sizes = {{16, 16}, {32, 32}, {64, 128}}};
  std::map<std::int64_t, double> pixels;
  constexpr int kSteps = 3000;
  for (int i = 0; i < kSteps; ++i) {
    RandomStream stream{1, static_cast<std::uint64_t>(i)};
    const ResolutionStep step = draw_resolution(options, {16, 16}, 8, stream);
    EXPECT_EQ(step.views, step.size.height == 16 ? 8 : step.size.height == 32 ? 2 : 1);
    EXPECT_FALSE(step.is_scene) << "without backgrounds";
    EXPECT_EQ(step.parts, 1);
    pixels[step.size.width] += static_cast<double>(step.views * step.size.height * step.size.width);
  }
  ASSERT_EQ(pixels.size(), 3);
  const double mean = (pixels[16] + pixels[32] + pixels[128]) / 3;
  for (const auto& [width, sum] : pixels) EXPECT_NEAR(sum / mean, 1, 0.1) << width;
}

TEST(ResolutionViews, ScenesNeedRoomAndBackgrounds) {
  const ResolutionOptions options{
      .sizes = {{16, 16}, {64, 16}, {48, 48}}, .backgrounds = {"b.ppm"}, .scene_share = 0.5};
  int scenes = 0;
  int enlarged = 0;
  std::set<std::int64_t> parts;
  for (int i = 0; i < 6000; ++i) {
    RandomStream stream{2, static_cast<std::uint64_t>(i)};
    const ResolutionStep step = draw_resolution(options, {16, 16}, 32, stream);
    EXPECT_LE(step.views * step.parts, 32);
    if (step.size.width < 48) {
      EXPECT_FALSE(step.is_scene) << "as narrow as the teacher's pictures";
    } else {
      ++(step.is_scene ? scenes : enlarged);
    }
    if (step.is_scene) parts.insert(step.parts);
  }
  EXPECT_NEAR(static_cast<double>(scenes) / (scenes + enlarged), 0.5, 0.05);
  EXPECT_EQ(parts, (std::set<std::int64_t>{1, 2}));
  EXPECT_ERROR(check_resolutions({.sizes = {{0, 16}}}), invalid_argument, "pixel");
}

TEST(ResolutionViews, AnEnlargedPictureIsTheTeachersCropEnlarged) {
  image::Picture picture = plain(64, 64, 0);
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3)  // red grows to the right
    picture.rgb[i] = static_cast<std::uint8_t>(i / 3 % 64 * 4);
  const AugmentOptions options = unnormalised({16, 16});
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RandomStream stream{seed};
    at::Tensor seen = at::zeros({3, 16, 16});
    const at::Tensor view =
        make_view(options, {}, {.size = {48, 48}}, {std::make_shared<image::Picture>(picture)},
                  nullptr, stream, seen.mutable_data_ptr<float>());
    ASSERT_EQ(view.sizes(), (at::IntArrayRef{3, 48, 48}));
    const at::Tensor reduced = at::adaptive_avg_pool2d(view, {16, 16});
    EXPECT_LT((reduced - seen).abs().max().item<double>(), 6) << seed;  // of 255
    EXPECT_GT((seen[0][8][15] - seen[0][8][0]).abs().item<double>(), 20) << seed;
  }
}

/// The pixels of a picture that was pasted into a plain background.
struct Pasted {
  std::int64_t height = 0;  ///< of the box around the pixels that differ from the background
  std::int64_t width = 0;
  std::int64_t count = 0;
  bool is_hard = false;  ///< a full box of the picture's own colour
};

Pasted pasted_in(const at::Tensor& pixels, double background, double own) {
  const at::Tensor differs = (pixels - background).abs().gt(0.5);
  const auto extent = [&](std::int64_t dimension) {
    const at::Tensor at = differs.any(dimension).nonzero();
    return (at.max() - at.min()).item<std::int64_t>() + 1;
  };
  Pasted pasted{
      .height = extent(1), .width = extent(0), .count = differs.sum().item<std::int64_t>()};
  pasted.is_hard = pasted.count == pasted.height * pasted.width &&
                   (pixels - own).abs().lt(0.5).sum().item<std::int64_t>() == pasted.count;
  return pasted;
}

TEST(ResolutionViews, PartsOfASceneAreWhereTheBackgroundIsNot) {
  const AugmentOptions options = unnormalised({16, 16});
  const image::Picture background = plain(300, 200, 10);
  const std::vector<std::shared_ptr<const image::Picture>> parts{
      std::make_shared<image::Picture>(plain(40, 40, 100)),
      std::make_shared<image::Picture>(plain(40, 40, 200))};
  constexpr int kSeeds = 60;
  int hard = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    RandomStream stream{seed};
    at::Tensor seen = at::zeros({2, 3, 16, 16});
    const ResolutionStep step{.size = {96, 160}, .views = 1, .parts = 2, .is_scene = true};
    const at::Tensor view = make_view(options, {.least_part = 24}, step, parts, &background, stream,
                                      seen.mutable_data_ptr<float>());
    ASSERT_EQ(view.sizes(), (at::IntArrayRef{3, 96, 160}));
    EXPECT_TRUE(at::allclose(seen[0], at::full({3, 16, 16}, 100.0))) << "the teacher's are whole";
    EXPECT_TRUE(at::allclose(seen[1], at::full({3, 16, 16}, 200.0)));
    EXPECT_GE(view.min().item<double>(), 10 - 1e-3);
    // One in either half, between the smallest edge and the strip.
    for (const auto& [value, first] : {std::pair{100.0, 0}, std::pair{200.0, 80}}) {
      const at::Tensor half = view[0].slice(1, first, first + 80);
      EXPECT_LE(half.max().item<double>(), value + 1e-3);
      const Pasted pasted = pasted_in(half, 10, value);
      EXPECT_LE(std::abs(pasted.height - pasted.width), 1) << "equal edges, " << seed;
      EXPECT_LE(pasted.width, 80);
      EXPECT_GE(pasted.width, 24 * 4 / 5) << "the rim fades out";
      // A circle has pi / 4 of its box.
      EXPECT_GT(pasted.count, 0.75 * static_cast<double>(pasted.height * pasted.width)) << seed;
      // The middle shows the picture, of whose colour at most half is the background's.
      EXPECT_GE(half.max().item<double>(), (value + 10) / 2 - 1e-3) << seed;
      if (pasted.is_hard) ++hard;
    }
  }
  EXPECT_NEAR(hard / (2.0 * kSeeds), 1.0 / 3, 0.15);
}

TEST(ResolutionViews, AHeldOutSceneHoldsItsImageOnceAndIsTheSameAgain) {
  const ResolutionOptions options{.backgrounds = {"b.ppm"}, .least_part = 8};
  const at::Tensor image = at::full({3, 16, 16}, 200.0, at::kFloat);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto make = [&] {
      RandomStream stream{seed};
      return scene_of(image, unnormalised({16, 16}), options, plain(96, 64, 10), {40, 60}, stream);
    };
    const at::Tensor scene = make();
    EXPECT_EQ(scene.sizes(), at::IntArrayRef({3, 40, 60}));
    EXPECT_TRUE(at::equal(make(), scene));
    const Pasted pasted = pasted_in(scene[0], 10, 200);
    EXPECT_LE(std::abs(pasted.height - pasted.width), 1) << "one square or circle";
    EXPECT_GE(pasted.height, 8 * 3 / 4);
    EXPECT_LE(pasted.height, 40);
    EXPECT_GE(scene.max().item<double>(), 105 - 1e-3);
    EXPECT_GE(scene.min().item<double>(), 10 - 1e-3);
  }
}

class ViewLoader : public ::testing::Test {
 protected:
  ViewLoader() {
    for (unsigned i = 0; i < 12; ++i)
      pictures_.push_back(
          {.file = folder_.write(std::to_string(i) + ".ppm", ppm(50, 40, i)), .target = i});
    options_.sampler.batch_size = 4;
    options_.augment.size = {16, 16};
    options_.resolutions = {.sizes = {{16, 16}, {24, 24}, {32, 64}},
                            .backgrounds = {folder_.write("b.ppm", ppm(200, 100, 99))},
                            .least_part = 12};
  }
  TemporaryFolder folder_;
  std::vector<TrainingPicture> pictures_;
  LoaderOptions options_;
};

TEST_F(ViewLoader, GivesViewsAndTheirParts) {
  BatchLoader loader(pictures_, options_);
  std::set<std::int64_t> widths;
  for (int i = 0; i < 40; ++i) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.views.dim(), 4);
    widths.insert(batch.views.size(3));
    EXPECT_EQ(batch.targets.sizes(), batch.images.sizes().slice(0, 1)) << "those of the parts";
    EXPECT_EQ(batch.images.size(0) % batch.views.size(0), 0);
    EXPECT_LE(batch.images.size(0), 4);
    EXPECT_EQ(batch.images.sizes().slice(1), (at::IntArrayRef{3, 16, 16}));
    EXPECT_TRUE(batch.views.isfinite().all().item<bool>());
    EXPECT_TRUE(batch.images.isfinite().all().item<bool>());
  }
  EXPECT_EQ(widths, (std::set<std::int64_t>{16, 24, 64}));
}

TEST_F(ViewLoader, TargetsAreThoseOfTheParts) {
  // Pictures of one colour each, which says their class.
  for (TrainingPicture& picture : pictures_) {
    std::string bytes = "P6\n20 20\n255\n";
    bytes.append(20 * 20 * 3, static_cast<char>(20 * picture.target));
    picture.file = folder_.write("plain" + std::to_string(picture.target) + ".ppm", bytes);
  }
  options_.augment = unnormalised({16, 16});
  BatchLoader loader(pictures_, options_);
  for (int i = 0; i < 20; ++i) {
    const Batch batch = loader.next();
    const at::Tensor shown = batch.images.amax(at::IntArrayRef{1, 2, 3}).round() / 20;
    EXPECT_TRUE(at::equal(shown.to(at::kLong), batch.targets)) << i;
  }
}

TEST_F(ViewLoader, RanksDrawTheSameSizesAndOtherPictures) {
  options_.sampler.world_size = 2;
  options_.sampler.batch_size = 2;
  BatchLoader first(pictures_, options_);
  options_.sampler.rank = 1;
  BatchLoader second(pictures_, options_);
  for (int i = 0; i < 8; ++i) {
    const Batch a = first.next();
    const Batch b = second.next();
    EXPECT_EQ(a.views.sizes(), b.views.sizes());
    EXPECT_FALSE(at::equal(a.views, b.views));
  }
}

}  // namespace
}  // namespace hydrascope::model::training
