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

TEST_F(PipelineTest, LargePicturesAreTheFindersAndKeepTheirPixels) {
  TwoSlotModel finder(100);
  PipelineOptions alone = options_;
  options_.finder.emplace(PipelineOptions::Finder{options_.transform, &finder, false});
  options_.finder->transform.views = image::Views::zoom;
  options_.finder->transform.img_size = {64, 64};
  const std::vector<Input> inputs{file(0, 70, 63), file(1, 80, 64), file(2, 20, 30),
                                  file(3, 64, 90)};
  const auto results = results_of(engine_, options_, inputs);
  ASSERT_EQ(results.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_FALSE(results[i].error) << results[i].message;
    EXPECT_EQ(results[i].seer.is_finder, i % 2 == 1) << i;
    EXPECT_EQ(results[i].pixels.rgb.empty(), !results[i].seer.is_finder) << i;
    if (results[i].seer.is_finder) continue;
    EXPECT_EQ(results[i].model_size, (image::Size{32, 32}));
    image::Picture picture = image::read_picture(inputs[i].path, {});
    EXPECT_TRUE(results[i].logits.allclose(look_at(picture, engine_, alone).logits)) << i;
  }
  EXPECT_TRUE(options_.has_parts({20, 500}, false)) << "a view of all of it is coarse";
  EXPECT_TRUE(options_.has_parts({130, 63}, false));
  EXPECT_FALSE(options_.has_parts({85, 63}, false)) << "the shape of most photographs";
  EXPECT_TRUE(options_.has_parts({64, 64}, /*is_frame=*/true)) << "zoom was asked for";
  options_.finder->leaves_frames = true;
  EXPECT_FALSE(options_.has_parts({64, 64}, /*is_frame=*/true));
}

}  // namespace pipeline_test
}  // namespace hydrascope::app
