// The plan's windows and local terms against the modules, which are the definition.
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_windows_test {

VitConfig with_window_option(VitConfig config, const std::string& key, const std::string& value) {
  for (AttentionSpec& spec : config.attention)
    if (spec.mechanism == "window") spec.options[key] = value;
  return config;
}

/// Learned gains and biases far from where they begin.
VisionTransformer filled_with_learned_rows(const VitConfig& config) {
  VisionTransformer model = filled(config);
  const at::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("prefix_rows") != std::string::npos)
      item.value().add_(at::randn_like(item.value()));
  }
  return model;
}

TEST(PlanOfLocalTerms, WindowsBesideHydraEqualTheModules) {
  at::manual_seed(5);
  const auto with = [](const std::string& attention,
                       const std::map<std::string, std::string>& options) {
    VitConfig config = small(attention);
    for (AttentionSpec& spec : config.attention) {
      if (spec.mechanism == "window") spec.options["size"] = "7";
      if (spec.mechanism != "hydra") continue;
      spec.options = options;
      spec.options["local"] = "window7";
    }
    return config;
  };
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const char* attention : {"hydra", "hydra:0,softmax:1,hedgehog:2", "window:0,hydra:1-2"}) {
    SCOPED_TRACE(attention);
    VitConfig config = with(attention, {});
    expect_fused(filled(config), images);
    config.overview = true;
    expect_fused(filled(config), images);
  }
  // The windows' queries are scaled, which Hydra's are not: seen where the norms are small.
  expect_fused(filled(with("hydra", {{"eps", "0.9"}})), images);
  expect_fused(filled(with("hydra", {{"eps", "0.9"}, {"phi_q", "l1"}})), images);
  // Other policies than `max` have no kernels.
  for (const char* policy : {"rsqrt", "add"})
    expect_fused_in_part(filled(with("hydra", {{"eps_policy", policy}, {"eps", "0.9"}})), images);
  for (const auto& change : shapes_of_model()) {
    VitConfig config = with("hydra", {{"feature_scale", "on"}});
    change(config);
    expect_fused(filled(config), images);
  }
  expect_fused_in_part(filled(with_local_terms(small("hedgehog"), "window7")), images);
}

/// Smaller than the training grid of 8x8 patches, as large, larger in one direction, in both.
const std::vector<std::array<std::int64_t, 2>> kSizesAroundTheGrid{
    {40, 48}, {64, 64}, {64, 136}, {104, 136}};

TEST(PlanOfWindows, EqualsTheModules) {
  at::manual_seed(5);
  for (const char* attention : {"window", "window:0-1,hydra:2", "hydra:0,window:1,softmax:2",
                                "softmax:0,hedgehog:1,window:2", "window:0,elu:1,window:2"}) {
    for (const auto& [height, width] : kSizesAroundTheGrid) {
      SCOPED_TRACE(std::string(attention) + " " + std::to_string(height) + "x" +
                   std::to_string(width));
      VitConfig config = small(attention);
      const at::Tensor images = at::randn({2, 3, height, width});
      expect_fused(filled(config), images);
      config.overview = true;
      if (config.token_grid_of_pixels(height, width).num_overview() > 0)
        expect_fused(filled(config), images);
    }
  }
}

TEST(PlanOfWindows, EqualsTheModulesForEveryKindOfPrefixRowsAndWindow) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const bool overview : {false, true}) {
    VitConfig config = small("window:0,hedgehog:1,window:2");
    config.overview = overview;
    for (const char* rows : {"plain", "scaled", "learned"}) {
      SCOPED_TRACE(std::string(rows) + (overview ? " with an overview" : ""));
      expect_fused(filled_with_learned_rows(with_window_option(config, "prefix_rows", rows)),
                   images);
    }
    for (const char* size : {"1", "3", "5x11", "40"}) {
      SCOPED_TRACE(std::string(size) + (overview ? " with an overview" : ""));
      expect_fused(filled(with_window_option(config, "size", size)), images);
    }
  }
}

TEST(PlanOfWindows, EqualsTheModulesForEveryShapeOfModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const auto& change : shapes_of_model()) {
    VitConfig config = with_window_option(small("window"), "prefix_rows", "learned");
    config.overview = true;
    change(config);
    expect_fused(filled_with_learned_rows(config), images);
  }
}

TEST(PlanOfWindows, AreCutByTilesAndServedInAnyOrderOfSizes) {
  at::manual_seed(5);
  VitConfig config = with_window_option(small("window:0-1,softmax:2"), "prefix_rows", "scaled");
  config.overview = true;
  VisionTransformer model = filled(config);
  InferencePlan plan(model, options());
  for (const auto& [batch, height, width] : std::vector<std::array<std::int64_t, 3>>{
           {1, 256, 264}, {2, 64, 64}, {3, 8, 8}, {2, 256, 264}}) {
    const at::Tensor images = at::randn({batch, 3, height, width});
    EXPECT_LT(relative(plan.logits(images), module_logits(model, images)), 1e-5);
  }
  // Tiles of six tokens that share windows, and the prefix.
  config.reg_tokens = 9;
  model = filled(config);
  InferencePlan many(model, options(at::kFloat, 24));
  const at::Tensor image = at::randn({1, 3, 72, 80});
  EXPECT_LT(relative(many.logits(image), module_logits(model, image)), 1e-5);
}

TEST(PlanOfWindows, DeterministicBitsDependNeitherOnBatchNorOnThreads) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 200, 136});
  VitConfig config = small("window:0-1,hydra:2");
  config.overview = true;
  VisionTransformer model = filled(config);
  for (const bool int8 : {false, true}) expect_same_bits(model, images, int8);
}

TEST(PlanOfWindows, TracesAreThoseOfTheModulesInTheirOrder) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const bool overview : {false, true}) {
    VitConfig config = small("window:0,hydra:1,window:2");
    config.overview = overview;
    expect_traces(filled(config), images, {0, 1, 2});
  }
}

TEST(PlanOfWindows, RunInGroupsWhereAnythingNeedsAnotherOrder) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 104, 136});
  VitConfig sizes = small("window");
  sizes.attention[1].options["size"] = "4";
  expect_fused(filled(sizes), images);
  const VisionTransformer model = filled(small("window:0-1,aft:2"));
  expect_fused_in_part(model, images, 1e-4);
  InferenceOptions fused = options();
  fused.kernels = Kernels::fused;
  EXPECT_ERROR(InferencePlan(model, fused), invalid_argument, "aft", "blocks.2.attn");
  // Windows beside Hydra have kernels in their own order alone.
  VitConfig beside = small("window:0,hydra:1-2");
  beside.attention[0].options["size"] = "4";
  beside.attention[1].options["local"] = "window7";
  EXPECT_ERROR(InferencePlan(filled(beside), fused), invalid_argument, "hydra", "blocks.1.attn");
}

}  // namespace plan_windows_test
}  // namespace hydrascope::model::inference
