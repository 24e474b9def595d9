// The plan against the modules, which are the definition.
#include "kernels/error.h"
#include "model/autocast_guard.h"
#include "model/inference/classifier.h"
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/rounding_twin.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_test {

/// Whether a layer finds keys by what tokens hold: rounding them to 16 bits finds others.
bool finds_keys(VisionTransformer& model) {
  for (std::int64_t layer = 0; layer < model->config().depth; ++layer) {
    if (find_mechanism(model->config().attention_of(layer).mechanism).sparse &&
        model->block(layer).attention().mixer().needs_all_queries())
      return true;
  }
  return false;
}

void expect_equal_to_modules(const VitConfig& config, const at::Tensor& images) {
  VisionTransformer model = filled(config);
  const at::Tensor expected = module_logits(model, images);
  EXPECT_LT(relative(InferencePlan(model, options()).logits(images), expected), 1e-4);
  EXPECT_LT(relative(split_logits(model, images, options()), expected), 1e-4);
  if (finds_keys(model)) return;
  // Two roundings of 2^-9 a value, on some ten tensors a block. Without a norm before attention scores
  // are large here, and softmax shows their rounding.
  const double tolerance = config.post_norm ? 0.12 : 3.5e-2;
  for_each_row_storage([&] {
    EXPECT_LT(relative(InferencePlan(model, options(at::kBFloat16)).logits(images), expected),
              tolerance);
  });
}

class PlanOfMechanism : public ::testing::TestWithParam<std::string> {};

TEST_P(PlanOfMechanism, EqualsTheModules) {
  at::manual_seed(5);
  expect_equal_to_modules(small(GetParam()), at::randn({2, 3, 64, 64}));
}

TEST(PlanOfLayers, ThatShareABlockEqualsTheModules) {
  at::manual_seed(5);
  for (const char* attention : {"softmax", "hydra", "hedgehog"}) {
    VitConfig config = small(attention);
    config.share_blocks = 1;
    expect_equal_to_modules(config, at::randn({2, 3, 64, 64}));
  }
}

TEST(PlanOfLayers, ThatModulesComputeAloneIsRefused) {
  for (const char* fields : {R"("residual":"reversible")", R"("residual":"gru")",
                             R"("halting":true)", R"("share_blocks":1,"step_embed":true)"}) {
    SCOPED_TRACE(fields);
    const VitConfig config = config_from_json(
        R"({"embed_dim":48,"depth":2,"num_classes":5,)" + std::string(fields) + "}", "");
    EXPECT_ERROR(InferencePlan(filled(config), options()), internal, "plans");
    InferenceOptions chosen;
    EXPECT_EQ(Classifier(config, chosen).engine().describe().kernels, "modules");
    chosen.kernels = Kernels::fused;
    EXPECT_ERROR(Classifier(config, chosen), invalid_argument, "plans", "`kernels` fused");
    chosen = options();
    chosen.precision.int8 = true;
    chosen.kernels = Kernels::automatic;
    EXPECT_ERROR(Classifier(config, chosen), invalid_argument, "8-bit", "`precision` int8");
  }
}

// Windows want their patches one after the other, and other layers may serve that order or not.
TEST_P(PlanOfMechanism, EqualsTheModulesBetweenWindows) {
  at::manual_seed(5);
  VitConfig config = small("window:0," + GetParam() + ":1,window:2");
  for (AttentionSpec& spec : config.attention)
    if (spec.mechanism == "window") spec.options["size"] = "4";
  expect_equal_to_modules(config, at::randn({1, 3, 64, 64}));
}

INSTANTIATE_TEST_SUITE_P(All, PlanOfMechanism, ::testing::ValuesIn(mechanism_names()),
                         [](const auto& mechanism) { return mechanism.param; });

TEST(PlanTest, EqualsTheModulesForEveryFusedOption) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 40, 72});
  for (const auto& [name, config] : fused_variants()) {
    SCOPED_TRACE(name);
    expect_equal_to_modules(config, images);
  }
}

TEST(PlanTest, EqualsTheModulesWhereTheSizeDecides) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 104, 136});
  expect_equal_to_modules(sized_by_the_picture(), images);
  VisionTransformer model = filled(sized_by_the_picture());
  VisionTransformer without = filled(small("softmax:0-1,window:2"));
  EXPECT_GT(relative(module_logits(model, images), module_logits(without, images)), 1e-2);
}

// A larger picture brings its overview, whose patches lie behind those of the picture.
TEST(PlanTest, EqualsTheModulesWithAnOverview) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const char* attention : {"window:0-1,hydra:2", "hedgehog", "softmax:0-1,window:2"}) {
    SCOPED_TRACE(attention);
    VitConfig config = small(attention);
    const VitConfig plain = config;
    config.overview = true;
    expect_equal_to_modules(config, images);
    VisionTransformer model = filled(config);
    VisionTransformer without = filled(plain);
    EXPECT_GT(relative(module_logits(model, images), module_logits(without, images)), 1e-3);
  }
}

// A teacher is asked by a model under training: what runs as modules stays of the plan's precision.
TEST(PlanTest, IsOfItsOwnPrecisionUnderAutocast) {
  at::manual_seed(5);
  VisionTransformer model = filled(small("nystrom"));
  const at::Tensor images = at::randn({1, 3, 64, 64});
  InferencePlan plan(model, options());
  const at::Tensor expected = plan.logits(images);
  const AutocastGuard cast(c10::kCPU, {.enabled = true});
  EXPECT_TRUE(at::equal(plan.logits(images), expected));
}

TEST(PlanTest, NeighboursMayHaveQueriesOfOtherWidths) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 256, 264});  // many tiles
  for (const char* attention : {"softmax:0,t2r:1,hydra:2", "t2r:0,softmax:1,t2r:2",
                                "aft:0,t2r:1,aft:2", "hydra:0,hedgehog:1,t2r:2"}) {
    for (const char* width : {"8", "80"}) {
      SCOPED_TRACE(std::string(attention) + ", width " + width);
      VitConfig config = small(attention);
      for (AttentionSpec& spec : config.attention) {
        if (spec.mechanism == "t2r") spec.options["width"] = width;
        if (spec.mechanism == "hedgehog") spec.options["width"] = "48";
      }
      VisionTransformer model = filled(config);
      const at::Tensor expected = module_logits(model, images);
      for (const int threads : {1, 4}) {
        InferencePlan plan(model, options(at::kFloat, threads));
        const at::Tensor first = plan.logits(images);
        EXPECT_LT(relative(first, expected), 1e-4);
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(plan.logits(images), first));
      }
    }
  }
}

TEST(PlanTest, EqualsTheModulesForEveryShapeOfModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 48, 80});
  const auto changed = [&](auto change) {
    for (const char* attention : {"softmax", "hydra", "softmax:0,hydra:1,hedgehog:2"}) {
      VitConfig config = small(attention);
      change(config);
      SCOPED_TRACE(to_json(config));
      expect_equal_to_modules(config, images);
    }
  };
  for (const auto& change : shapes_of_model()) changed(change);
  for (const auto& change : shapes_of_cpu()) changed(change);
}

TEST(PlanTest, AFewTokensMoreThanATileAndMany) {
  at::manual_seed(5);
  for (const char* attention : {"softmax", "hydra", "hedgehog"}) {
    SCOPED_TRACE(attention);
    expect_equal_to_modules(small(attention), at::randn({1, 3, 8, 8}));
    expect_equal_to_modules(small(attention), at::randn({1, 3, 256, 264}));
  }
}

TEST(PlanTest, SizesAndBatchesMayChangeBetweenCalls) {
  at::manual_seed(5);
  VisionTransformer model = filled(small("softmax:0,hydra:1-2"));
  InferencePlan plan(model, options());
  for (const auto& [batch, height, width] : std::vector<std::array<std::int64_t, 3>>{
           {4, 64, 64}, {2, 64, 64}, {1, 32, 96}, {5, 64, 64}}) {
    const at::Tensor images = at::randn({batch, 3, height, width});
    EXPECT_LT(relative(plan.logits(images), module_logits(model, images)), 1e-4);
  }
}

TEST(PlanTest, SameBitsAgainAndNearlyTheSameWithOtherThreads) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 200, 200});
  for (const char* attention : {"softmax", "hydra", "hedgehog"}) {
    SCOPED_TRACE(attention);
    VisionTransformer model = filled(small(attention));
    InferencePlan two(model, options());
    const at::Tensor first = two.logits(images);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(two.logits(images), first));
    EXPECT_LT(relative(InferencePlan(model, options(at::kFloat, 1)).logits(images), first), 1e-5);
    EXPECT_LT(relative(InferencePlan(model, options(at::kFloat, 5)).logits(images), first), 1e-5);
  }
}

// Deterministic plans give the same bits, others stay within the documented bounds.
TEST(PlanTest, ResultsDependLittleOnBatchAndThreads) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 104, 136});
  for (const char* attention : {"softmax", "hydra", "hedgehog"}) {
    for (const bool int8 : {false, true}) {
      SCOPED_TRACE(std::string(attention) + (int8 ? " int8" : ""));
      const VisionTransformer model = filled(small(attention));
      expect_same_bits(model, images, int8);
      InferenceOptions chosen = options(at::kBFloat16, 1);
      chosen.precision.int8 = int8;
      const at::Tensor one = InferencePlan(model, chosen).logits(images);
      chosen.threads = 5;
      InferencePlan five(model, chosen);
      const double bound = int8 ? 5e-2 : 2e-2;
      EXPECT_LT(relative(five.logits(images), one), bound);
      EXPECT_LT(relative(five.logits(images.narrow(0, 1, 1)), one.narrow(0, 1, 1)), bound);
    }
  }
}

// Weights come from the table, each tensor once, by threads that leave LibTorch's as they were; nothing
// that the process draws afterwards is another.
TEST(PlanTest, ReadsEachTensorOfTheTableOnce) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 64, 64});
  const int torch_threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const WeightTable own(filled(small("hydra:0,hedgehog:1,softmax:2")));
    InferenceOptions chosen = options(dtype, 3);
    chosen.deterministic = true;
    std::map<std::string, std::atomic<int>> read;
    WeightTable counting(own.config());
    WeightTable torn(own.config());
    for (const auto& [name, of_model] : own.tensors()) {
      torn.add(name, of_model);
      counting.add(name, [&count = read[name], of_model = of_model] {
        ++count;
        return of_model();
      });
    }
    at::manual_seed(7);
    const at::Tensor drawn = at::randn({1});
    at::manual_seed(7);
    InferencePlan plan(counting, chosen);
    EXPECT_TRUE(at::equal(at::randn({1}), drawn));
    EXPECT_TRUE(at::equal(plan.logits(images), InferencePlan(own, chosen).logits(images)));
    EXPECT_TRUE(plan.logits(at::randn({1, 3, 32, 64})).defined()) << "another size reads no more";
    for (const auto& [name, count] : read) EXPECT_EQ(count, 1) << name;
    torn.add("blocks.1.mlp.fc1.weight",
             []() -> at::Tensor { throw Error(ErrorCode::failed, "the block cannot be read"); });
    EXPECT_ERROR(InferencePlan(torn, chosen), failed, "cannot be read");
  }
  EXPECT_EQ(at::get_num_threads(), torch_threads);
}

TEST(PlanTest, ModelThatIsFilledStaysAsItIs) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 64, 64});
  VisionTransformer model = filled(small("aft:0,hydra:1,hedgehog:2"));
  const at::Tensor expected = module_logits(model, images);
  InferencePlan(model, options(at::kBFloat16)).logits(images);
  EXPECT_TRUE(at::equal(module_logits(model, images), expected));
}

TEST(PlanTest, Int8StaysNearTheModulesForEveryKindOfLayer) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  for (const char* attention : {"softmax", "hydra", "hedgehog", "aft:0,elu:1,hydra:2"}) {
    SCOPED_TRACE(attention);
    VisionTransformer model = filled(small(attention));
    const at::Tensor expected = module_logits(model, images);
    InferenceOptions int8 = options(at::kBFloat16);
    int8.precision.int8 = true;
    const at::Tensor calibration = at::randn({4, 3, 64, 64});
    for_each_row_storage([&] {
      // Some fourteen products of a block, each with two operands of 8 bits.
      int8.calibration = at::Tensor();
      EXPECT_LT(relative(InferencePlan(model, int8).logits(images), expected), 0.05);
      int8.calibration = calibration;
      EXPECT_LT(relative(InferencePlan(model, int8).logits(images), expected), 0.05);
    });
  }
}

// A twin that rounds where the plan does is nearer than the modules are. Not as near as one would
// think: where two sums of another order round apart, what follows rounds apart as well. But that
// differs by picture, and most mistakes do not, so the mean over pictures shows them.
TEST(PlanTest, NarrowPrecisionsRoundWhereTheyShouldAndNowhereElse) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({48, 3, 32, 40});
  const auto compare = [&](const std::string& attention, bool int8) {
    SCOPED_TRACE(attention + (int8 ? " int8" : " bfloat16"));
    VisionTransformer model = filled(small(attention));
    InferenceOptions chosen = options(at::kBFloat16);
    chosen.precision.int8 = int8;
    const at::Tensor found = InferencePlan(model, chosen).logits(images);
    const auto distances = [&](Mistake mistake) {
      const at::Tensor expected = RoundingTwin(model, int8, mistake).logits(images);
      const at::Tensor mean_size = expected.norm() / std::sqrt(images.size(0));
      const at::Tensor drift = (found - expected).mean(0).norm() / mean_size;
      return std::pair{relative(found, expected), drift.item<double>()};
    };
    // A number of 8 bits that falls on the other side of a step than the twin's is a whole step away.
    // That hides a GELU of another form where all attention multiplies such numbers.
    const bool in_bytes = int8 && attention == "softmax" &&
                          kernels::softmax_attention::bytes_are_faster(model->config().embed_dim /
                                                                       model->config().num_heads);
    const double bound = in_bytes ? 0.02 : int8 ? 0.012 : 0.008;
    const double bound_of_mean = in_bytes ? 0.005 : int8 ? 0.003 : 0.002;
    const auto [distance, drift] = distances(Mistake::none);
    EXPECT_LT(distance, bound);
    EXPECT_LT(drift, bound_of_mean);
    for (const Mistake mistake :
         {Mistake::quick_gelu, Mistake::no_last_key, Mistake::no_query_bias, Mistake::no_proj_bias,
          Mistake::no_fc2_bias, Mistake::no_head_bias}) {
      if (in_bytes && mistake == Mistake::quick_gelu) continue;
      const auto [far, far_drift] = distances(mistake);
      EXPECT_TRUE(far > bound || far_drift > bound_of_mean)
          << "mistake " << static_cast<int>(mistake);
    }
  };
  for_each_row_storage([&] {
    for (const char* attention : {"softmax", "hydra", "hydra:0,softmax:1-2"})
      for (const bool int8 : {false, true}) compare(attention, int8);
  });
}

TEST(PlanTest, CalibrationKeepsALargeChannelFromTheOthers) {
  at::manual_seed(5);
  VisionTransformer model = filled(small("softmax"));
  {
    // The first MLP's activation is hundreds of times as large in a few channels of trained models.
    const at::NoGradGuard no_grad;
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      auto parameters = model->block(layer).named_parameters();
      parameters["mlp.fc1.weight"].narrow(0, 7, 1).mul_(300);
      parameters["mlp.fc2.weight"].narrow(1, 7, 1).div_(300);
    }
  }
  const at::Tensor images = at::randn({2, 3, 64, 64});
  const at::Tensor expected = module_logits(model, images);
  InferenceOptions int8 = options(at::kBFloat16);
  int8.precision.int8 = true;
  const double without = relative(InferencePlan(model, int8).logits(images), expected);
  int8.calibration = at::randn({4, 3, 64, 64});
  const double with = relative(InferencePlan(model, int8).logits(images), expected);
  EXPECT_LT(with, 0.1);
  EXPECT_LT(with, without / 3);
}

TEST(PlanTest, SaysWhatRunsAndRefusesWhatItCannot) {
  EXPECT_EQ(InferencePlan(filled(small("hydra")), options()).describe().kernels, "fused");
  EXPECT_EQ(InferencePlan(filled(small("hydra:0,aft:1-2")), options()).describe().kernels,
            "fused+modules");
  InferenceOptions fused = options();
  fused.kernels = Kernels::fused;
  EXPECT_NO_THROW(InferencePlan(filled(small("hydra")), fused));
  EXPECT_ERROR(InferencePlan(filled(small("hydra:0,aft:1-2")), fused), invalid_argument, "aft",
               "blocks.1.attn");
  EXPECT_ERROR(InferencePlan(filled(small("hydra")), options(at::kHalf)), internal, "Half");
}

TEST(PlanTest, StageTimesCoverTheRun) {
  VisionTransformer model = filled(small("hydra"));
  InferencePlan plan(model, options(at::kFloat, 1));
  const at::Tensor images = at::randn({1, 3, 256, 256});
  (void)plan.logits(images);
  double covered = 0;
  // Between two stages another program may get the processor, hence not the first run but the best.
  for (int run = 0; run < 20 && covered <= 0.8; ++run) {
    StageTimes times;
    ASSERT_TRUE(plan.collect_stage_times(&times));
    const auto begin = std::chrono::steady_clock::now();
    (void)plan.logits(images);
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    plan.collect_stage_times(nullptr);
    double sum = 0;
    for (const Stage stage : {Stage::patch_embed, Stage::layer_norm, Stage::qkv, Stage::attention,
                              Stage::proj, Stage::mlp, Stage::head}) {
      EXPECT_GT(times.seconds[static_cast<std::size_t>(stage)], 0);
      sum += times.seconds[static_cast<std::size_t>(stage)];
    }
    EXPECT_LE(sum, whole.count());
    covered = std::max(covered, sum / whole.count());
  }
  EXPECT_GT(covered, 0.8);
}

}  // namespace plan_test
}  // namespace hydrascope::model::inference
