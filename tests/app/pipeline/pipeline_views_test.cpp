// Pictures that are classified in several views.
#include "tests/app/pipeline/small_pipeline.h"
#include "tests/error_matchers.h"

#include <algorithm>
#include <numeric>

namespace hydrascope::app {
namespace pipeline_test {

class PipelineViewsTest : public PipelineTest {
 protected:
  PipelineViewsTest() { options_.transform.views = image::Views::tiles; }
  /// Sizes of one view, of several, and of less than a tile.
  std::vector<Input> pictures(int count) {
    std::vector<Input> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(file(i, 20 + 37 * (i % 5), 24 + 29 * (i % 4)));
    return inputs;
  }
};

TEST_F(PipelineViewsTest, EachClassIsThatOfItsMostProbableView) {
  for (const auto kind : {image::Views::tiles, image::Views::pyramid}) {
    options_.transform.views = kind;
    options_.batch_size = 5;
    options_.keep_picture = true;
    const std::vector<Input> inputs = pictures(20);
    const Outcome outcome = run(inputs);
    ASSERT_EQ(outcome.results.size(), inputs.size());
    EXPECT_EQ(outcome.timing.images, 20);
    std::size_t most = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const PipelineResult& result = outcome.results[i];
      EXPECT_EQ(result.input.given, inputs[i].given);
      ASSERT_FALSE(result.error) << result.message;
      const image::Picture picture = image::read_picture(inputs[i].path, {});
      EXPECT_EQ(result.pixels.rgb, picture.rgb);
      EXPECT_EQ(result.picture, (image::Size{picture.height, picture.width}));
      const auto plans = image::plan_views(options_.transform, result.picture);
      ASSERT_EQ(result.views.plans.size(), plans.size());
      most = std::max(most, plans.size());
      std::vector<at::Tensor> views;
      for (const image::TransformPlan& plan : plans)
        views.push_back(image::normalise(options_.transform,
                                         image::transform_pixels(options_.transform, picture, plan),
                                         plan.output));
      const at::Tensor logits = engine_.logits(at::stack(views));
      const at::Tensor expected = std::get<0>(at::softmax(logits.to(at::kDouble), -1).max(0));
      for (std::int64_t c = 0; c < 4; ++c) {
        const BestViews::Best& best = result.views.best.classes().at(static_cast<std::size_t>(c));
        EXPECT_NEAR(best.probability, expected[c].item<double>(), 1e-5);
        const auto view = static_cast<std::int64_t>(best.view);
        EXPECT_NEAR(best.logit, logits[view][c].item<double>(), 1e-4);
        EXPECT_FLOAT_EQ(result.logits[c].item<float>(), static_cast<float>(best.logit));
      }
    }
    EXPECT_GE(most, 24U);
  }
}

TEST_F(PipelineTest, APictureThatIsDecodedIsOneViewAsInARun) {
  const Input input = file(3, 90, 70);
  image::Picture picture = image::read_picture(input.path, {});
  const PipelineResult alone = look_at(picture, engine_, options_);
  ASSERT_FALSE(alone.error) << alone.message;
  const Outcome outcome = run({input});
  for (const PipelineResult* result : {&alone, &outcome.results.at(0)}) {
    EXPECT_EQ(result->picture, (image::Size{70, 90}));
    EXPECT_EQ(result->views.kind, image::Views::whole);
    ASSERT_EQ(result->views.plans.size(), 1U);
    EXPECT_TRUE(result->logits.allclose(alone.logits));
    const at::Tensor expected = at::softmax(result->logits.to(at::kDouble), -1);
    for (std::int64_t c = 0; c < 4; ++c)
      EXPECT_NEAR(result->views.best.classes().at(static_cast<std::size_t>(c)).probability,
                  expected[c].item<double>(), 1e-12);
  }
}

TEST_F(PipelineViewsTest, BatchesAndFailuresAreAsWithOneView) {
  TwoSlotModel model(3);
  options_.batch_size = 8;
  std::vector<Input> inputs = pictures(12);
  inputs[4] = {"four", folder_.write("four.jpg", "this is text"), false, std::nullopt, ""};
  inputs[9] = {"nine", {}, false, ErrorCode::not_found, "no such file"};
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 12U);
  std::int64_t views = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(results[i].input.given, inputs[i].given);
    EXPECT_EQ(results[i].error.has_value(), i == 4 || i == 9) << results[i].message;
    if (!results[i].error) views += std::ssize(results[i].views.plans);
  }
  EXPECT_EQ(results[4].error, ErrorCode::unsupported_format);
  EXPECT_LE(std::ranges::max(model.sizes_), 3) << "more did not fit";
  EXPECT_EQ(std::accumulate(model.sizes_.begin(), model.sizes_.end(), std::int64_t{0}), views);
  TwoSlotModel without_room(0);
  for (const PipelineResult& result : results_of(without_room, options_, pictures(3)))
    EXPECT_EQ(result.error, ErrorCode::out_of_memory);
}

TEST_F(PipelineViewsTest, ALargePictureGoesThroughInBatches) {
  options_.batch_size = 4;
  for (const std::int64_t budget : {options_.memory_budget, std::int64_t{1}}) {
    options_.memory_budget = budget;  // a tiny one only slows it down
    TwoSlotModel model(100);
    const auto results = results_of(model, options_, {file(0, 700, 500), file(1)});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].views.plans.size(), 29U * 21U);
    EXPECT_LE(std::ranges::max(model.sizes_), 4);
  }
}

TEST_F(PipelineTest, SmallPicturesAreOfTheOtherModelAndOthersKeepTheirPixels) {
  TwoSlotModel large(100);
  options_.transform.views = image::Views::look;
  options_.transform.img_size = {64, 64};
  PipelineOptions::Looking& looking = options_.looking.emplace();
  looking.whole.img_size = {32, 32};
  looking.whole.patch_size = 8;
  looking.whole.crop_pct = 1;
  looking.engine = &engine_;
  const std::vector<Input> inputs{file(0, 70, 63), file(1, 80, 64), file(2, 20, 30),
                                  file(3, 64, 90)};
  const auto results = results_of(large, options_, inputs);
  ASSERT_EQ(results.size(), 4U);
  PipelineOptions alone;
  alone.transform = looking.whole;
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_FALSE(results[i].error) << results[i].message;
    EXPECT_EQ(results[i].seer.is_of_small, i % 2 == 0) << i;
    EXPECT_EQ(results[i].pixels.rgb.empty(), results[i].seer.is_of_small) << i;
    EXPECT_EQ(results[i].views.kind,
              results[i].seer.is_of_small ? image::Views::whole : image::Views::look);
    if (!results[i].seer.is_of_small) continue;
    EXPECT_EQ(results[i].model_size, (image::Size{32, 32}));
    image::Picture picture = image::read_picture(inputs[i].path, {});
    EXPECT_TRUE(results[i].logits.allclose(look_at(picture, engine_, alone).logits)) << i;
  }
  EXPECT_FALSE(looking.is_small({20, 500}, false)) << "its square shows a twenty-fifth";
  EXPECT_FALSE(looking.is_small({130, 63}, false));
  EXPECT_TRUE(looking.is_small({85, 63}, false)) << "the shape of most photographs";
  EXPECT_FALSE(looking.is_small({64, 64}, /*is_frame=*/true)) << "looks were asked for";
  looking.is_default = true;
  EXPECT_TRUE(looking.is_small({64, 64}, /*is_frame=*/true));
}

}  // namespace pipeline_test
}  // namespace hydrascope::app
