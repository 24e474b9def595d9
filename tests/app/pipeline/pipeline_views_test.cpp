// The view that a picture is classified in.
#include "tests/app/pipeline/small_pipeline.h"

namespace hydrascope::app {
namespace pipeline_test {

TEST_F(PipelineTest, APictureThatIsDecodedIsOneViewAsInARun) {
  const Input input = file(3, 90, 70);
  image::Picture picture = image::read_picture(input.path, {});
  const PipelineResult alone = look_at(picture, engine_, options_);
  ASSERT_FALSE(alone.error) << alone.message;
  const Outcome outcome = run({input});
  for (const PipelineResult* result : {&alone, &outcome.results.at(0)}) {
    EXPECT_EQ(result->picture, (image::Size{70, 90}));
    EXPECT_EQ(result->plan.output, (image::Size{32, 32}));
    EXPECT_TRUE(result->logits.allclose(alone.logits));
    const at::Tensor expected = at::softmax(result->logits.to(at::kDouble), -1);
    for (std::int64_t c = 0; c < 4; ++c)
      EXPECT_NEAR(result->scores.classes().at(static_cast<std::size_t>(c)).probability,
                  expected[c].item<double>(), 1e-12);
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
