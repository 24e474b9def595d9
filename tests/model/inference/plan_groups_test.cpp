// The plan's groups of queries that share their keys against the modules, which are the definition.
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_groups_test {

using Settings = std::map<std::string, std::string>;

VitConfig with_settings(const std::string& mechanism, const Settings& settings) {
  VitConfig config = small(mechanism);
  for (AttentionSpec& spec : config.attention)
    for (const auto& [key, value] : settings) spec.options[key] = value;
  return config;
}

/// Every kind of pattern: masked and whole groups, several passes, patterns by head and by layer.
std::vector<std::pair<std::string, VitConfig>> sparse_variants() {
  std::vector<std::pair<std::string, VitConfig>> variants;
  for (const auto& [mechanism, settings] : std::vector<std::pair<std::string, Settings>>{
           {"neighborhood", {}},
           {"neighborhood", {{"window", "3"}}},
           {"neighborhood", {{"window", "5x3"}, {"border", "clip"}}},
           {"neighborhood", {{"window", "3"}, {"dilation", "2"}}},
           {"neighborhood", {{"window", "4"}, {"dilation", "3"}, {"dilated_heads", "1"}}},
           {"longformer", {{"window_first", "3"}, {"window", "7"}}},
           {"longformer", {{"window", "5"}, {"dilation", "4"}, {"border", "shift"}}},
           {"strided", {}},
           {"strided", {{"band", "2"}}},
           {"strided", {{"combine", "heads"}}},
           {"strided", {{"combine", "rows"}, {"band", "1"}}},
           {"strided", {{"combine", "columns"}}},
           {"fixed", {{"block", "4"}, {"summary", "3"}}},
           {"blockwise", {{"tile", "3"}}},
           {"bigbird", {{"block", "2"}, {"random_blocks", "4"}}},
           {"bigbird", {{"block", "3"}, {"window_blocks", "1"}, {"random", "head"}}},
           {"window", {{"size", "4"}, {"shift", "alternate"}}},
           {"window", {{"size", "3"}, {"halo", "2"}}},
           {"window", {{"size", "3"}, {"order", "raster"}}}}) {
    std::string name = mechanism;
    for (const auto& [key, value] : settings) name += " " + key + "=" + value;
    variants.emplace_back(name, with_settings(mechanism, settings));
  }
  return variants;
}

void expect_as_the_modules(VisionTransformer model, const at::Tensor& images) {
  EXPECT_LT(relative(InferencePlan(model, options()).logits(images), module_logits(model, images)),
            1e-5);
}

TEST(PlanOfGroups, EqualsTheModulesInEveryPrecision) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const auto& [name, config] : sparse_variants()) {
    SCOPED_TRACE(name);
    expect_fused(filled(config), images);
  }
}

// The training grid, a ragged one, one row, one column, one patch.
TEST(PlanOfGroups, EqualsTheModulesOnEveryGrid) {
  at::manual_seed(5);
  for (const auto& [height, width] :
       std::vector<std::array<std::int64_t, 2>>{{64, 64}, {72, 200}, {8, 136}, {136, 8}, {8, 8}}) {
    const at::Tensor images = at::randn({3, 3, height, width});
    for (const auto& [name, config] : sparse_variants()) {
      SCOPED_TRACE(name + " " + std::to_string(height) + "x" + std::to_string(width));
      expect_as_the_modules(filled(config), images);
    }
  }
}

TEST(PlanOfGroups, EqualsTheModulesForEveryShapeOfModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const auto& change : shapes_of_model()) {
    for (const char* mechanism : {"neighborhood", "strided"}) {
      SCOPED_TRACE(mechanism);
      VitConfig config = with_settings(mechanism, {{"prefix_rows", "scaled"}});
      config.overview = std::string(mechanism) == "strided";
      change(config);
      expect_fused(filled(config), images);
    }
  }
}

TEST(PlanOfGroups, EqualsTheModulesBesideEveryKindOfLayer) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const char* attention : {"neighborhood:0,hydra:1,softmax:2", "hedgehog:0,strided:1,elu:2",
                                "window:0,strided:1,window:2", "longformer:0,window:1,hydra:2",
                                "softmax:0,window:1,bigbird:2", "t2r:0,fixed:1,blockwise:2"}) {
    for (const bool overview : {false, true}) {
      SCOPED_TRACE(std::string(attention) + (overview ? " with an overview" : ""));
      VitConfig config = small(attention);
      config.overview = overview;
      expect_fused(filled(config), images);
    }
  }
  expect_fused_in_part(filled(small("strided:0,aft:1,neighborhood:2")), images, 1e-4);
}

// Queries and keys of more than one block of the kernel, and more queries than a group has.
TEST(PlanOfGroups, ManyPatchesAndAnyOrderOfSizes) {
  at::manual_seed(5);
  for (const Settings& settings : {Settings{}, Settings{{"window", "40"}}}) {
    VisionTransformer model = filled(with_settings("neighborhood", settings));
    InferencePlan plan(model, options());
    for (const auto& [batch, height, width] : std::vector<std::array<std::int64_t, 3>>{
             {1, 256, 264}, {2, 64, 64}, {3, 8, 8}, {2, 256, 264}}) {
      const at::Tensor images = at::randn({batch, 3, height, width});
      EXPECT_LT(relative(plan.logits(images), module_logits(model, images)), 1e-5);
    }
  }
}

TEST(PlanOfGroups, DeterministicBitsDependNeitherOnBatchNorOnThreads) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 104, 136});
  VisionTransformer model = filled(small("strided:0,neighborhood:1,hydra:2"));
  for (const bool int8 : {false, true}) expect_same_bits(model, images, int8);
}

TEST(PlanOfGroups, TracesAreThoseOfTheModules) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 104, 136});
  for (const char* attention :
       {"strided:0,neighborhood:1,bigbird:2", "window:0,strided:1,fixed:2"}) {
    SCOPED_TRACE(attention);
    expect_traces(filled(small(attention)), images, {1, 2});
  }
}

}  // namespace plan_groups_test
}  // namespace hydrascope::model::inference
