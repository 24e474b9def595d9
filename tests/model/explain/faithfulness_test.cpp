#include "model/explain/faithfulness.h"

#include "kernels/error.h"
#include "model/explain/baseline_maps.h"
#include "model/explain/blur.h"
#include "model/inference/overlap.h"
#include "tests/error_matchers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace hydrascope::model::explain {
namespace faithfulness_test {

using ::testing::ElementsAre;

constexpr std::int64_t kPatch = 2;
constexpr double kTolerance = 1e-6;

/// Two classes; the probability of class 0 is the sum over patches of weight times the patch's
/// mean, so that every curve can be written down.
class WeightedPatches final : public inference::Engine, public inference::Overlap {
 public:
  explicit WeightedPatches(const at::Tensor& weights)
      : Engine(of_patches()), weights_(weights.to(at::kDouble)) {}

  [[nodiscard]] int under_way() const { return *under_way_; }
  [[nodiscard]] std::int64_t enough_tokens() const noexcept override { return 15; }
  [[nodiscard]] inference::Overlap* overlap() noexcept override { return this; }
  [[nodiscard]] int most_under_way() const noexcept override { return 2; }
  inference::PendingBatch::Wait begin(const inference::ImageBatch& batch) override {
    EXPECT_LT(under_way(), most_under_way());
    if (batch.size() > most_) throw Error(ErrorCode::out_of_memory, "does not fit", "a test");
    at::Tensor logits = at::empty({batch.size(), 2});
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const at::Tensor& image = batch.images[static_cast<std::size_t>(i)];
      EXPECT_EQ(image.sizes(), (at::IntArrayRef{3, batch.height, batch.width}));
      const at::Tensor means = at::avg_pool2d(image.to(at::kDouble), kPatch).mean(0);
      const double probability = (means * weights_).sum().item<double>();
      logits[i] = at::tensor({probability, 1 - probability}).clamp_min(1e-12).log();
    }
    const std::shared_ptr<void> counted(nullptr, [count = under_way_](void*) { --*count; });
    ++*under_way_;
    sizes_.push_back(batch.size());
    return [logits, counted] { return inference::EngineOutputs{logits, {}}; };
  }

  std::vector<std::int64_t> sizes_;  ///< of batches
  std::int64_t most_ = 100;          ///< images that fit into the memory

 private:
  inference::EngineOutputs run(const inference::ImageBatch& batch) override {
    return begin(batch)();
  }
  static VitConfig of_patches() {
    VitConfig config;
    config.patch_size = kPatch;
    return config;
  }

  at::Tensor weights_;
  std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  ///< batches
};

FaithfulnessOptions options_of(std::vector<Measure> measures, std::int64_t steps = 4) {
  FaithfulnessOptions options;
  options.measures = std::move(measures);
  options.steps = steps;
  options.patch_size = kPatch;
  return options;
}

WatchedPicture white(std::int64_t rows, std::int64_t columns) {
  return {at::ones({3, rows * kPatch, columns * kPatch}), 0};
}

std::vector<double> areas(inference::Engine& model, const WatchedPicture& picture,
                          const std::vector<at::Tensor>& maps, const FaithfulnessOptions& options) {
  const auto scores = score_maps(model, picture, maps, options);
  EXPECT_TRUE(scores.has_value());
  std::vector<double> list;
  for (const FaithfulnessScore& score : *scores) list.push_back(score.area);
  return list;
}

TEST(FaithfulnessTest, ABatchThatDoesNotFitIsHalved) {
  const at::Tensor weights = at::tensor({0.4, 0.3, 0.2, 0.1}).view({2, 2});
  const auto options = options_of({Measure::deletion});
  WeightedPatches roomy(weights);
  WeightedPatches narrow(weights);
  narrow.most_ = 1;
  EXPECT_EQ(areas(roomy, white(2, 2), {weights}, options),
            areas(narrow, white(2, 2), {weights}, options));
  EXPECT_EQ(std::ranges::max(narrow.sizes_), 1);
  narrow.most_ = 0;
  EXPECT_ERROR(score_maps(narrow, white(2, 2), std::vector{weights}, options), out_of_memory,
               "not enough memory for a batch of 1 images");
}

TEST(FaithfulnessTest, AreaIsTheTrapezoidOverTheUnitInterval) {
  EXPECT_DOUBLE_EQ(area_under(std::vector{1.0, 0.5, 0.0}), 0.5);
  EXPECT_DOUBLE_EQ(area_under(std::vector{0.25, 0.25}), 0.25);
  EXPECT_DOUBLE_EQ(area_under(std::vector{1.0, 0.0, 0.0, 0.0, 0.0}), 0.125);
}

TEST(FaithfulnessTest, OrderIsByHeatThenByIndex) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> heat{0.5F, -2.0F, kNan, 3.0F, 0.5F, -2.0F};
  EXPECT_THAT(order_of(heat), ElementsAre(3, 0, 4, 1, 5, 2));
}

TEST(FaithfulnessTest, CountsAreEvenlySpread) {
  EXPECT_THAT(replaced_counts(4, 4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(replaced_counts(10, 4), ElementsAre(0, 3, 5, 8, 10));
  EXPECT_THAT(replaced_counts(2, 14), ElementsAre(0, 1, 2));
}

TEST(FaithfulnessTest, DeletionOfAKnownModelIsExact) {
  WeightedPatches model(at::tensor({0.2, 0.5, 0.0, 0.3}).view({2, 2}));
  const at::Tensor truth = at::tensor({2.0F, 5.0F, 0.0F, 3.0F}).view({2, 2});
  const auto scores =
      areas(model, white(2, 2), {truth, -truth, at::ones({2, 2})}, options_of({Measure::deletion}));
  EXPECT_NEAR(scores[0], (1 + 0.5 + 0.2 + 0 + 0 - 0.5) / 4, kTolerance);
  EXPECT_NEAR(scores[1], (1 + 1 + 0.8 + 0.5 + 0 - 0.5) / 4, kTolerance);
  EXPECT_NEAR(scores[2], (1 + 0.8 + 0.3 + 0.3 + 0 - 0.5) / 4, kTolerance) << "ties by index";
}

TEST(FaithfulnessTest, InsertionOfAKnownModelIsExact) {
  const at::Tensor weights = at::tensor({0.4, 0.1, 0.2, 0.3}).view({2, 2});
  WeightedPatches model(weights);
  WatchedPicture picture;
  at::manual_seed(1);
  picture.image = at::rand({3, 2 * kPatch, 2 * kPatch});
  const auto probabilities = [&](const at::Tensor& image) {
    return (at::avg_pool2d(image.to(at::kDouble), kPatch).mean(0) * weights).view({-1});
  };
  const at::Tensor clear = probabilities(picture.image);
  const at::Tensor blur = probabilities(blurred(picture.image, blur_sigma(4, 4)));
  const std::vector<std::int64_t> order{2, 0, 3, 1};
  std::vector<double> curve{blur.sum().item<double>()};
  for (const std::int64_t patch : order)
    curve.push_back(curve.back() + (clear[patch] - blur[patch]).item<double>());
  const at::Tensor map = at::tensor({3.0F, 1.0F, 4.0F, 2.0F}).view({2, 2});
  EXPECT_NEAR(areas(model, picture, {map}, options_of({Measure::insertion}))[0], area_under(curve),
              kTolerance);
}

TEST(FaithfulnessTest, MapsShareBatchesAndEndPoints) {
  WeightedPatches model(at::full({2, 2}, 0.25));
  const std::vector<at::Tensor> maps{at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2})};
  areas(model, white(2, 2), maps, options_of({Measure::deletion, Measure::insertion}));
  // Three points between the ends for each of six curves, and the ends of two measures.
  EXPECT_EQ(std::accumulate(model.sizes_.begin(), model.sizes_.end(), std::int64_t{0}), 6 * 3 + 4);
  EXPECT_EQ(model.sizes_.front(), 3) << "as many as enough_tokens says";
  EXPECT_EQ(model.sizes_.size(), 8U);
  FaithfulnessOptions options = options_of({Measure::deletion});
  options.batch_size = 100;
  model.sizes_.clear();
  areas(model, white(2, 2), maps, options);
  EXPECT_THAT(model.sizes_, ElementsAre(3 * 3 + 2));
}

TEST(FaithfulnessTest, StopsBetweenBatchesAndLeavesTheModelIdle) {
  WeightedPatches model(at::full({2, 2}, 0.25));
  FaithfulnessOptions options = options_of({Measure::deletion});
  int asked = 0;
  options.stop_requested = [&] { return ++asked > 2; };
  const std::vector<at::Tensor> maps{at::rand({2, 2}), at::rand({2, 2})};
  EXPECT_FALSE(score_maps(model, white(2, 2), maps, options).has_value());
  EXPECT_EQ(model.sizes_.size(), 2U);
  EXPECT_EQ(model.under_way(), 0);
}

TEST(FaithfulnessTest, RefusesMapsOfAnotherGrid) {
  WeightedPatches model(at::full({2, 3}, 0.25));
  const std::vector<at::Tensor> maps{at::rand({3, 2})};
  EXPECT_ERROR(score_maps(model, white(2, 3), maps, options_of({Measure::deletion})),
               invalid_argument, "2x3", "3x2");
}

TEST(FaithfulnessTest, MeasuresAreFoundByName) {
  for (const MeasureEntry& entry : measures()) {
    EXPECT_EQ(find_measure_or_null(entry.name), &entry);
    EXPECT_EQ(entry_of(entry.measure).name, entry.name);
  }
  EXPECT_EQ(find_measure_or_null("deletions"), nullptr);
  EXPECT_TRUE(entry_of(Measure::deletion).lower_is_better);
  EXPECT_FALSE(entry_of(Measure::insertion).lower_is_better);
}

TEST(BlurTest, SpreadsAPointAsAGaussian) {
  constexpr double kSigma = 2;
  at::Tensor image = at::zeros({3, 41, 31});
  image[1][20][15] = 1;
  const at::Tensor blur = blurred(image, kSigma);
  EXPECT_NEAR(blur.select(0, 1).sum().item<double>(), 1, 1e-5);
  EXPECT_EQ(blur.select(0, 0).abs().sum().item<double>(), 0) << "channels are apart";
  const auto at = [&](std::int64_t y, std::int64_t x) { return blur[1][y][x].item<double>(); };
  EXPECT_NEAR(at(23, 14) / at(20, 15), std::exp(-(9.0 + 1.0) / (2 * kSigma * kSigma)), 1e-5);
  EXPECT_EQ(at(20 + 7, 15), 0) << "cut at three sigma";
  EXPECT_GT(at(20 + 6, 15), 0);
}

TEST(BlurTest, KeepsFlatPicturesAndFitsIntoSmallOnes) {
  const at::Tensor flat = at::full({3, 6, 9}, 0.7F);
  EXPECT_TRUE(at::allclose(blurred(flat, 1.5), flat));
  EXPECT_TRUE(at::allclose(blurred(flat, 50), flat)) << "wider than the picture";
  EXPECT_DOUBLE_EQ(blur_sigma(224, 448), 11.2);
}

using Seed = std::array<std::uint32_t, 2>;

TEST(BaselineMapsTest, ASeedMakesOneRandomMap) {
  const at::Tensor map = random_map(14, 14, Seed{42, 0});
  EXPECT_TRUE(at::equal(map, random_map(14, 14, Seed{42, 0})));
  EXPECT_FALSE(at::equal(map, random_map(14, 14, Seed{42, 1})));
  EXPECT_FALSE(at::equal(map, random_map(14, 14, Seed{43, 0})));
  EXPECT_GE(map.min().item<float>(), 0.0F);
  EXPECT_LT(map.max().item<float>(), 1.0F);
  EXPECT_NEAR(random_map(100, 100, Seed{1, 2}).mean().item<double>(), 0.5, 0.01);
}

TEST(BaselineMapsTest, RandomMapsAreTheSameOnEveryMachine) {
  // The numbers of the standard's seed_seq and mt19937_64 for the words 42, 0: the upper 24 bits.
  const at::Tensor map = random_map(1, 2, Seed{42, 0});
  EXPECT_EQ(std::ldexp(map[0][0].item<float>(), 24), 5559825.0F);
  EXPECT_EQ(std::ldexp(map[0][1].item<float>(), 24), 9904547.0F);
}

TEST(BaselineMapsTest, TheCentreIsAGaussianOfAQuarterOfEachEdge) {
  const at::Tensor map = center_map(8, 4);
  EXPECT_TRUE(at::equal(map, map.flip({0})));
  EXPECT_TRUE(at::equal(map, map.flip({1})));
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return map[row][column].item<double>();
  };
  EXPECT_NEAR(at(1, 0), std::exp(-0.5 * (1.25 * 1.25 + 1.5 * 1.5)), 1e-6);
  EXPECT_NEAR(at(0, 1) / at(3, 1), std::exp(-0.5 * (1.75 * 1.75 - 0.25 * 0.25)), 1e-6);
  const at::Tensor odd = center_map(3, 5);
  EXPECT_EQ(odd[1][2].item<float>(), 1.0F);
}

}  // namespace faithfulness_test
}  // namespace hydrascope::model::explain
