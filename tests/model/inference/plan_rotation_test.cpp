// The CPU's plan turns queries and keys as the modules do.
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <string>

namespace hydrascope::model::inference {
namespace plan_rotation_test {

VitConfig with_rule(VitConfig config, const std::string& rule,
                    const std::vector<std::string>& options) {
  config.rel_pos.assign(static_cast<std::size_t>(config.depth), {});
  apply_position_spec(rule, config.rel_pos);
  for (const std::string& option : options) apply_position_option(option, config.rel_pos);
  return config;
}

VisionTransformer turned_model(const VitConfig& base, const std::string& rule,
                               const std::vector<std::string>& options) {
  at::manual_seed(3);
  VisionTransformer model(with_rule(base, rule, options));
  model->eval();
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters())
    parameter.add_(at::randn(parameter.sizes()), 0.05);
  return model;
}

const std::vector<std::vector<std::string>> kVariants{
    {},
    {"rope.order=ij", "rope.layout=half", "rope.coords=unit"},
    {"rope.variant=mixed", "rope.base=10"},
    {"rope.variant=mixed", "rope.layout=half", "rope.coords=train", "rope.scale=0.5"}};

TEST(PlanRotationTest, AgreesWithTheModulesInEveryPrecision) {
  const c10::InferenceMode inference;
  for (const char* attention : {"softmax", "window", "softmax:0,window:1-2",
                                "neighborhood:0-1,strided:2", "softmax:0,hydra:1-2"}) {
    for (const auto& options : kVariants) {
      SCOPED_TRACE(attention + (options.empty() ? "" : " " + options.back()));
      VitConfig config = small(attention);
      for (AttentionSpec& spec : config.attention)
        if (spec.mechanism == "window") spec.options["size"] = "4";
      const bool with_hydra = std::string(attention).find("hydra") != std::string::npos;
      const VisionTransformer model = turned_model(config, with_hydra ? "rope:0" : "rope", options);
      for (const auto& [height, width] : {std::pair{64, 64}, {72, 104}}) {
        const at::Tensor images = at::randn({2, 3, height, width});
        const at::Tensor expected = VisionTransformer(model)->forward(images);
        InferenceOptions chosen;
        chosen.kernels = Kernels::fused;  // or it throws
        InferencePlan plan(model, chosen);
        EXPECT_EQ(plan.describe().kernels, "fused");
        EXPECT_LT(relative(plan.logits(images), expected), 1e-5);
        chosen.precision.dtype = at::kBFloat16;
        EXPECT_LT(relative(InferencePlan(model, chosen).logits(images), expected), 0.05);
        chosen.precision.int8 = true;
        EXPECT_LT(relative(InferencePlan(model, chosen).logits(images), expected), 0.1);
      }
    }
  }
}

TEST(PlanRotationTest, WindowsAndAnOverviewAreTurnedByTheirOwnPlaces) {
  const c10::InferenceMode inference;
  for (const auto& options : kVariants) {
    SCOPED_TRACE(options.empty() ? "" : options.back());
    VitConfig config = small("window");
    config.overview = true;
    for (const PosInterp interpolation : {PosInterp::timm, PosInterp::tile}) {
      config.pos_interp = interpolation;
      for (const char* rows : {"plain", "learned"}) {
        for (AttentionSpec& spec : config.attention) spec.options["prefix_rows"] = rows;
        ASSERT_GT(config.token_grid_of_pixels(104, 136).num_overview(), 0);
        expect_fused(filled(with_rule(config, "rope", options)), at::randn({2, 3, 104, 136}));
      }
    }
  }
}

TEST(PlanRotationTest, OtherRulesRunAsModules) {
  const c10::InferenceMode inference;
  const VisionTransformer biased = turned_model(small(), "alibi:1", {});
  expect_fused_in_part(biased, at::randn({1, 3, 64, 64}));
  InferenceOptions fused;
  fused.kernels = Kernels::fused;
  EXPECT_ERROR(InferencePlan(biased, fused), invalid_argument,
               "'softmax' with the position rule 'alibi'", "blocks.1.attn");
}

TEST(PlanRotationTest, NoMechanismDropsARule) {
  const c10::InferenceMode inference;
  const at::Tensor images = at::randn({1, 3, 64, 64});
  for (const MechanismEntry* mechanism : mechanisms()) {
    // Their layers find other keys where rounding differs.
    if (!mechanism->takes_positions || mechanism->name == "routing") continue;
    for (const PositionEntry* rule : position_rules()) {
      SCOPED_TRACE(mechanism->name + " " + rule->name);
      const VisionTransformer model = turned_model(small(mechanism->name), rule->name, {});
      const at::Tensor expected = VisionTransformer(model)->forward(images);
      EXPECT_LT(relative(InferencePlan(model, {}).logits(images), expected), 1e-5);
    }
  }
}

}  // namespace plan_rotation_test
}  // namespace hydrascope::model::inference
