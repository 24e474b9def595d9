// Memories over frames in the engines: the CPU's plan against the modules, still videos, beginnings.
#include "kernels/error.h"
#include "model/inference/inference_plan.h"
#include "model/inference/modules_engine.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_memory_test {

InferenceOptions remembering(const VitConfig& config, const std::string& spec,
                             const std::vector<std::string>& settings = {},
                             InferenceOptions chosen = options()) {
  chosen.memory = choose_memories(spec, settings, config);
  return chosen;
}

ImageBatch frame_of(const at::Tensor& image, bool goes_on) {
  ImageBatch batch;
  batch.on_device = image.contiguous();
  batch.height = image.size(2);
  batch.width = image.size(3);
  batch.goes_on = goes_on;
  return batch;
}

/// The logits (frames, classes) of a video from its beginning.
at::Tensor play(Engine& engine, const at::Tensor& video) {
  std::vector<at::Tensor> logits;
  for (std::int64_t t = 0; t < video.size(0); ++t)
    logits.push_back(engine.compute(frame_of(video.narrow(0, t, 1), t > 0)).logits);
  return at::cat(logits);
}

struct Case {
  std::string memory;
  std::string kernels;  ///< of the plan
  VitConfig config;
};

std::vector<Case> cases() {
  return {{"state", "fused", small("hydra")},
          {"state", "fused", small("hedgehog")},
          {"state", "fused", small("elu")},
          {"state", "fused+modules", small("mla")},
          {"state", "fused", small("softmax:0,hydra:1-2")},
          {"state:1", "fused", small("window:0,hedgehog:1,hydra:2")},
          {"state", "fused", with_local_terms(small("hydra"), "window7")},
          {"state", "fused+modules", with_local_terms(small("hedgehog"), "window7")},
          {"state", "fused+modules", small("performer")},
          {"xl", "fused+modules", small("softmax")},
          {"xl:1,state:2", "fused+modules", small("softmax:0-1,hydra:2")},
          {"compressive:last1", "fused+modules", small("softmax")}};
}

TEST(PlanMemoryTest, FramesAreThoseOfTheModules) {
  at::manual_seed(5);
  const at::Tensor video = at::randn({4, 3, 64, 72});
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.memory + " " + to_text(one.config.attention));
    const VisionTransformer model = filled(one.config);
    ModulesEngine modules(model, remembering(one.config, one.memory));
    const at::Tensor expected = play(modules, video);
    const at::Tensor alone = InferencePlan(model, options()).logits(video);
    EXPECT_GT(relative(expected.slice(0, 1), alone.slice(0, 1)), 1e-3) << "earlier frames count";
    for (const int threads : {1, 3}) {
      InferencePlan plan(model,
                         remembering(one.config, one.memory, {}, options(at::kFloat, threads)));
      EXPECT_LT(relative(play(plan, video), expected), 1e-5) << threads;
      EXPECT_EQ(plan.describe().kernels, one.kernels);
    }
    InferencePlan rounded(model, remembering(one.config, one.memory, {}, options(at::kBFloat16)));
    EXPECT_LT(relative(play(rounded, video), expected), 3.5e-2);
    InferenceOptions integers = options(at::kBFloat16);
    integers.precision.int8 = true;
    integers.calibration = at::randn({2, 3, 64, 72});
    InferencePlan quantised(model, remembering(one.config, one.memory, {}, integers));
    EXPECT_LT(relative(play(quantised, video), expected), 0.08);
  }
}

TEST(PlanMemoryTest, AVideoBeginsAsInAFreshRun) {
  at::manual_seed(7);
  const at::Tensor first = at::randn({3, 3, 64, 64});
  const at::Tensor second = at::randn({3, 3, 64, 64});
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.memory + " " + to_text(one.config.attention));
    const VisionTransformer model = filled(one.config);
    const InferenceOptions chosen = remembering(one.config, one.memory);
    InferencePlan fresh(model, chosen);
    const at::Tensor expected = play(fresh, second);
    InferencePlan plan(model, chosen);
    play(plan, first);
    EXPECT_TRUE(at::equal(play(plan, second), expected));
    play(plan, at::randn({2, 3, 64, 72}));
    EXPECT_TRUE(at::equal(play(plan, second), expected)) << "after a video of another size";
    ModulesEngine modules(model, chosen);
    const at::Tensor of_modules = play(modules, second);
    play(modules, first);
    EXPECT_TRUE(at::equal(play(modules, second), of_modules));
  }
}

TEST(PlanMemoryTest, WithoutWeightOrFramesItIsTheModel) {
  at::manual_seed(8);
  const at::Tensor video = at::randn({3, 3, 64, 64});
  struct Setting {
    const char* attention;
    const char* memory;
    const char* setting;
  };
  for (const auto& [attention, memory, setting] :
       {Setting{"hydra", "state", "state.lambda=0"}, {"hedgehog", "state", "state.lambda=0"}}) {
    SCOPED_TRACE(attention);
    const VitConfig config = small(attention);
    const VisionTransformer model = filled(config);
    InferencePlan alone(model, options());
    InferencePlan plan(model, remembering(config, memory, {setting}));
    EXPECT_TRUE(at::equal(play(plan, video), play(alone, video)));
    EXPECT_EQ(plan.describe().kernels, "fused");
  }
  const VitConfig config = small("softmax");
  const VisionTransformer model = filled(config);
  ModulesEngine alone(model, options());
  ModulesEngine modules(model, remembering(config, "xl", {"xl.frames=0"}));
  EXPECT_TRUE(at::equal(play(modules, video), play(alone, video)));
}

TEST(PlanMemoryTest, AFrameOfAnotherSizeIsRefused) {
  at::manual_seed(9);
  const at::Tensor video = at::randn({2, 3, 64, 64});
  const VitConfig config = small("hydra");
  const VisionTransformer model = filled(config);
  InferencePlan plan(model, remembering(config, "state"));
  const at::Tensor expected = play(plan, video);
  play(plan, video.narrow(0, 0, 1));
  EXPECT_ERROR(plan.compute(frame_of(at::randn({1, 3, 64, 72}), true)), unsupported_format,
               "a frame of 64x72 after frames of 64x64 (HxW)");
  EXPECT_TRUE(at::equal(plan.compute(frame_of(video.narrow(0, 1, 1), true)).logits,
                        expected.narrow(0, 1, 1)))
      << "the video goes on";
  EXPECT_ERROR(plan.compute(frame_of(video, true)), internal, "one by one");
}

TEST(PlanMemoryTest, OnlyLayersWithKernelsAreFused) {
  InferenceOptions chosen = options();
  chosen.kernels = Kernels::fused;
  const VitConfig config = small("softmax");
  EXPECT_ERROR(InferencePlan(filled(config), remembering(config, "xl", {}, chosen)),
               invalid_argument, "no kernels for 'softmax' with the memory 'xl'");
}

}  // namespace plan_memory_test
}  // namespace hydrascope::model::inference
