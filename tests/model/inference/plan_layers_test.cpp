// Layers with an order, a pattern or places of their own in the CPU's plan: windows, groups of queries that
// share their keys, local terms, rotations. The modules are the definition.
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_layers_test {

using Settings = std::map<std::string, std::string>;
using Sizes = std::vector<std::array<std::int64_t, 3>>;  // batch, height, width

/// Options of the layers of a mechanism, or of all.
VitConfig with(VitConfig config, const Settings& settings, const std::string& mechanism = "") {
  for (AttentionSpec& spec : config.attention) {
    if (!mechanism.empty() && spec.mechanism != mechanism) continue;
    for (const auto& [key, value] : settings) spec.options[key] = value;
  }
  return config;
}

VitConfig with_overview(VitConfig config, bool overview = true) {
  config.overview = overview;
  return config;
}

/// Windows beside Hydra, and windows of their size.
VitConfig with_local_hydra(const std::string& attention, const Settings& settings = {}) {
  VitConfig config = with(small(attention), {{"size", "7"}}, "window");
  return with(with(config, settings, "hydra"), {{"local", "window7"}}, "hydra");
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

/// Larger than the training grid of 8x8 patches.
at::Tensor large_images() {
  at::manual_seed(5);
  return at::randn({2, 3, 104, 136});
}

void expect_all_fused(const std::vector<VitConfig>& configs, const at::Tensor& images) {
  for (const VitConfig& config : configs) {
    SCOPED_TRACE(to_json(config));
    expect_fused(filled_with_learned_rows(config), images);
  }
}

void expect_as_the_modules(const VitConfig& config, const Sizes& sizes, int threads = 2) {
  SCOPED_TRACE(to_json(config));
  VisionTransformer model = filled(config);
  InferencePlan plan(model, options(at::kFloat, threads));
  for (const auto& [batch, height, width] : sizes) {
    const at::Tensor images = at::randn({batch, 3, height, width});
    EXPECT_LT(relative(plan.logits(images), module_logits(model, images)), 1e-5)
        << height << "x" << width;
  }
}

/// Every kind of pattern: masked and whole groups, several passes, patterns by head and by layer.
std::vector<VitConfig> patterns() {
  std::vector<VitConfig> configs;
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
           {"window", {{"size", "3"}, {"order", "raster"}}}})
    configs.push_back(with(small(mechanism), settings));
  return configs;
}

TEST(PlanOfGroups, EqualsTheModulesInEveryPrecision) {
  expect_all_fused(patterns(), large_images());
}

TEST(PlanOfGroups, EqualsTheModulesBesideEveryKindOfLayer) {
  const at::Tensor images = large_images();
  for (const char* attention : {"neighborhood:0,hydra:1,softmax:2", "hedgehog:0,strided:1,elu:2",
                                "window:0,strided:1,window:2", "longformer:0,window:1,hydra:2",
                                "softmax:0,window:1,bigbird:2", "t2r:0,fixed:1,blockwise:2"})
    expect_all_fused({small(attention), with_overview(small(attention))}, images);
  expect_fused_in_part(filled(small("strided:0,aft:1,neighborhood:2")), images, 1e-4);
}

// The training grid, a ragged one, one row, one column, one patch.
TEST(PlanOfGroups, EqualsTheModulesOnEveryGrid) {
  at::manual_seed(5);
  for (const VitConfig& config : patterns())
    expect_as_the_modules(config, {{3, 64, 64}, {3, 72, 200}, {3, 8, 136}, {3, 136, 8}, {3, 8, 8}});
}

TEST(PlanOfWindows, EqualsTheModules) {
  at::manual_seed(5);
  for (const char* attention : {"window", "window:0-1,hydra:2", "hydra:0,window:1,softmax:2",
                                "softmax:0,hedgehog:1,window:2", "window:0,elu:1,window:2"}) {
    for (const auto& [height, width] :
         std::vector<std::array<std::int64_t, 2>>{{40, 48}, {64, 64}, {64, 136}, {104, 136}}) {
      const at::Tensor images = at::randn({2, 3, height, width});
      const VitConfig seen_twice = with_overview(small(attention));
      expect_all_fused({small(attention)}, images);
      if (seen_twice.token_grid_of_pixels(height, width).num_overview() > 0)
        expect_all_fused({seen_twice}, images);
    }
  }
}

TEST(PlanOfWindows, EqualsTheModulesForEveryKindOfPrefixRowsAndWindow) {
  const at::Tensor images = large_images();
  for (const bool overview : {false, true}) {
    const VitConfig config = with_overview(small("window:0,hedgehog:1,window:2"), overview);
    for (const char* rows : {"plain", "scaled", "learned"})
      expect_all_fused({with(config, {{"prefix_rows", rows}}, "window")}, images);
    for (const char* size : {"1", "3", "5x11", "40"})
      expect_all_fused({with(config, {{"size", size}}, "window")}, images);
  }
}

TEST(PlanOfWindows, BesideHydraEqualTheModules) {
  const at::Tensor images = large_images();
  for (const char* attention : {"hydra", "hydra:0,softmax:1,hedgehog:2", "window:0,hydra:1-2"})
    expect_all_fused({with_local_hydra(attention), with_overview(with_local_hydra(attention))},
                     images);
  // The windows' queries are scaled, which Hydra's are not: seen where the norms are small.
  expect_all_fused({with_local_hydra("hydra", {{"eps", "0.9"}}),
                    with_local_hydra("hydra", {{"eps", "0.9"}, {"phi_q", "l1"}})},
                   images);
  // Other policies than `max` have no kernels.
  for (const char* policy : {"rsqrt", "add"})
    expect_fused_in_part(
        filled(with_local_hydra("hydra", {{"eps_policy", policy}, {"eps", "0.9"}})), images);
  expect_fused_in_part(filled(with_local_terms(small("hedgehog"), "window7")), images);
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

TEST(PlanOfPatterns, EqualsTheModulesForEveryShapeOfModel) {
  const at::Tensor images = large_images();
  const Settings scaled{{"prefix_rows", "scaled"}};
  for (const VitConfig& kind :
       {with(small("neighborhood"), scaled), with_overview(with(small("strided"), scaled)),
        with_overview(with(small("window"), {{"prefix_rows", "learned"}})),
        with_local_hydra("hydra", {{"feature_scale", "on"}})}) {
    for (const auto& change : shapes_of_model()) {
      VitConfig config = kind;
      change(config);
      expect_all_fused({config}, images);
    }
  }
}

// Queries and keys of more than one block of the kernel, and more queries than a group has.
TEST(PlanOfPatterns, ManyPatchesAndAnyOrderOfSizes) {
  at::manual_seed(5);
  VitConfig windows =
      with_overview(with(small("window:0-1,softmax:2"), {{"prefix_rows", "scaled"}}, "window"));
  for (const VitConfig& config :
       {small("neighborhood"), with(small("neighborhood"), {{"window", "40"}}), windows})
    expect_as_the_modules(config, {{1, 256, 264}, {2, 64, 64}, {3, 8, 8}, {2, 256, 264}});
  // Tiles of six tokens that share windows, and the prefix.
  windows.reg_tokens = 9;
  expect_as_the_modules(windows, {{1, 72, 80}}, 24);
}

TEST(PlanOfPatterns, DeterministicBitsDependNeitherOnBatchNorOnThreads) {
  at::manual_seed(5);
  for (const auto& [config, height] : {std::pair{small("strided:0,neighborhood:1,hydra:2"), 104},
                                       {with_overview(small("window:0-1,hydra:2")), 200}}) {
    const at::Tensor images = at::randn({3, 3, height, 136});
    const VisionTransformer model = filled(config);
    for (const bool int8 : {false, true}) expect_same_bits(model, images, int8);
  }
}

TEST(PlanOfPatterns, TracesAreThoseOfTheModulesInTheirOrder) {
  const at::Tensor images = large_images();
  for (const char* attention :
       {"strided:0,neighborhood:1,bigbird:2", "window:0,strided:1,fixed:2"}) {
    SCOPED_TRACE(attention);
    expect_traces(filled(small(attention)), images, {1, 2});
  }
  for (const bool overview : {false, true})
    expect_traces(filled(with_overview(small("window:0,hydra:1,window:2"), overview)), images,
                  {0, 1, 2});
}

// ---- rotations

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

const std::vector<std::vector<std::string>> kRotations{
    {},
    {"rope.order=ij", "rope.layout=half", "rope.coords=unit"},
    {"rope.variant=mixed", "rope.base=10"},
    {"rope.variant=mixed", "rope.layout=half", "rope.coords=train", "rope.scale=0.5"}};

TEST(PlanRotationTest, AgreesWithTheModulesInEveryPrecision) {
  const c10::InferenceMode inference;
  for (const auto& [attention, rule] : {std::pair{"softmax", "rope"},
                                        {"window", "rope"},
                                        {"softmax:0,window:1-2", "rope"},
                                        {"neighborhood:0-1,strided:2", "rope"},
                                        {"softmax:0,hydra:1-2", "rope:0"}}) {
    for (const auto& options : kRotations) {
      SCOPED_TRACE(attention + (options.empty() ? "" : " " + options.back()));
      const VisionTransformer model =
          turned_model(with(small(attention), {{"size", "4"}}, "window"), rule, options);
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
  for (const auto& options : kRotations) {
    SCOPED_TRACE(options.empty() ? "" : options.back());
    VitConfig config = with_overview(small("window"));
    ASSERT_GT(config.token_grid_of_pixels(104, 136).num_overview(), 0);
    for (const PosInterp interpolation : {PosInterp::timm, PosInterp::tile}) {
      config.pos_interp = interpolation;
      for (const char* rows : {"plain", "learned"})
        expect_fused(filled(with_rule(with(config, {{"prefix_rows", rows}}), "rope", options)),
                     at::randn({2, 3, 104, 136}));
    }
  }
}

TEST(PlanRotationTest, OtherRulesRunAsModules) {
  const c10::InferenceMode inference;
  const at::Tensor images = at::randn({1, 3, 64, 64});
  const VisionTransformer biased = turned_model(small(), "alibi:1", {});
  expect_fused_in_part(biased, images);
  InferenceOptions fused;
  fused.kernels = Kernels::fused;
  EXPECT_ERROR(InferencePlan(biased, fused), invalid_argument,
               "'softmax' with the position rule 'alibi'", "blocks.1.attn");
  for (const MechanismEntry* mechanism : mechanisms()) {
    // Layers of `routing` find other keys where rounding differs.
    if (!mechanism->takes_positions || mechanism->name == "routing") continue;
    for (const PositionEntry* rule : position_rules()) {
      SCOPED_TRACE(mechanism->name + " " + rule->name);
      const VisionTransformer model = turned_model(small(mechanism->name), rule->name, {});
      const at::Tensor expected = VisionTransformer(model)->forward(images);
      EXPECT_LT(relative(InferencePlan(model, {}).logits(images), expected), 1e-5);
    }
  }
}

}  // namespace plan_layers_test
}  // namespace hydrascope::model::inference
