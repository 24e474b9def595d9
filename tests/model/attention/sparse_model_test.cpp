// Models whose layers see some of the patches: mosaics, overviews and what a configuration remembers.
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace hydrascope::testing {
namespace sparse_model_test {

using model::TokenGrid;

model::VitConfig small_model(const std::string& mechanism) {
  model::VitConfig config;
  config.arch = "small";
  config.img_height = 24;
  config.img_width = 32;
  config.patch_size = 8;
  config.embed_dim = 16;
  config.depth = 3;
  config.num_heads = 2;
  config.num_classes = 5;
  config.attention.assign(3, spec_of(mechanism));
  return config;
}

model::VisionTransformer model_of(const model::VitConfig& config) {
  at::manual_seed(20);
  model::VisionTransformer model(config);
  const at::NoGradGuard no_grad;
  // The initial weights are so small that attention hardly matters.
  for (at::Tensor& parameter : model->parameters())
    parameter.add_(at::randn(parameter.sizes()), 0.2);
  model->to(at::kDouble);
  return model;
}

// T10
TEST(SparseModelTest, AMosaicOfOnePictureHasThatPicturesLogits) {
  const c10::InferenceMode inference;
  const at::Tensor picture = at::randn({2, 3, 24, 32}, at::kDouble);
  const at::Tensor mosaic = picture.repeat({1, 1, 3, 2});
  model::VitConfig config = small_model("window");
  config.pos_interp = model::PosInterp::tile;
  config.class_token = false;
  config.global_pool = model::Pooling::avg;
  const at::Tensor expected = model_of(config)->forward(picture);
  EXPECT_TRUE(all_near(model_of(config)->forward(mosaic), expected, 1e-12));
  config.pos_interp = model::PosInterp::timm;
  EXPECT_GT(relative_error(model_of(config)->forward(mosaic), expected), 1e-3);
}

// Rotations begin anew in every tile: coordinates that the size of the grid stretches stay as they were.
TEST(SparseModelTest, AMosaicOfOnePictureHasThatPicturesLogitsUnderRotations) {
  const c10::InferenceMode inference;
  const at::Tensor picture = at::randn({2, 3, 24, 32}, at::kDouble);
  const at::Tensor mosaic = picture.repeat({1, 1, 3, 2});
  for (const std::map<std::string, std::string>& options :
       {std::map<std::string, std::string>{},
        {{"coords", "unit"}, {"order", "ij"}},
        {{"coords", "train"}, {"variant", "mixed"}}}) {
    SCOPED_TRACE(options.empty() ? "patch" : options.at("coords"));
    model::VitConfig config = small_model("window");
    config.pos_embed = model::PosEmbed::none;
    config.rel_pos.assign(3, {"rope", options});
    config.pos_interp = model::PosInterp::tile;
    config.class_token = false;
    config.global_pool = model::Pooling::avg;
    const at::Tensor expected = model_of(config)->forward(picture);
    model::VisionTransformer tiled = model_of(config);
    EXPECT_TRUE(all_near(tiled->forward(mosaic), expected, 1e-11));
    const model::PositionRule& rope = *tiled->block(0).attention().mixer().position();
    const auto of_tile = rope.rotation({0, 3, 4}, 8);
    const auto of_mosaic = rope.rotation({0, 9, 8}, 8);
    const auto repeated = [](const at::Tensor& table) {
      return table.unflatten(0, {3, 4}).repeat({3, 2, 1, 1}).flatten(0, 1);
    };
    EXPECT_TRUE(all_near(of_mosaic->cosine, repeated(of_tile->cosine), 1e-6));
    EXPECT_TRUE(all_near(of_mosaic->sine, repeated(of_tile->sine), 1e-6));
    // Distances within a window are the same in a picture that is one grid of patches.
    config.pos_interp = model::PosInterp::timm;
    const double error = relative_error(model_of(config)->forward(mosaic), expected);
    if (options.empty())
      EXPECT_LT(error, 1e-11);
    else
      EXPECT_GT(error, 1e-4);
  }
}

// As DINOv2's and DINOv3's towers are, but small.
TEST(SparseModelTest, TowersOfWindowsHaveTheFeaturesOfSoftmaxAtTheirOwnSize) {
  const c10::InferenceMode inference;
  model::VitConfig dinov2 = small_model("softmax");
  dinov2.patch_size = 14;
  dinov2.img_height = 42;
  dinov2.img_width = 56;
  dinov2.layer_scale = true;
  dinov2.num_classes = 0;
  model::VitConfig dinov3 = small_model("softmax");
  dinov3.pos_embed = model::PosEmbed::none;
  dinov3.rel_pos.assign(3, {"rope", {{"coords", "unit"}, {"order", "ij"}, {"layout", "half"}}});
  dinov3.reg_tokens = 4;
  dinov3.layer_scale = true;
  dinov3.qkv_bias = false;
  dinov3.num_classes = 0;
  for (const model::VitConfig& tower : {dinov2, dinov3}) {
    SCOPED_TRACE("patch " + std::to_string(tower.patch_size));
    model::VitConfig windows = tower;
    windows.attention.assign(3, spec_of("window", {{"prefix_rows", "scaled"}}));
    windows.pos_interp = model::PosInterp::tile;
    windows.overview = true;
    const at::Tensor own = at::randn({2, 3, tower.img_height, tower.img_width}, at::kDouble);
    EXPECT_TRUE(at::equal(model_of(windows)->forward_features(own),
                          model_of(tower)->forward_features(own)));
    model::VisionTransformer model = model_of(windows);
    const at::Tensor large =
        at::randn({1, 3, 5 * tower.patch_size, 7 * tower.patch_size}, at::kDouble);
    const TokenGrid grid = model->grid_of(large);
    EXPECT_GT(grid.num_overview(), 0);
    EXPECT_EQ(model->forward_features(large).size(1), grid.num_tokens());
  }
}

// The overview of a picture that bicubic reduction returns unchanged is that picture at its own size.
TEST(SparseModelTest, AnOverviewAloneIsThePictureAtTheTrainingSize) {
  const c10::InferenceMode inference;
  model::VitConfig config = small_model("window");
  config.overview = true;
  EXPECT_EQ(config.token_grid(3, 4).num_overview(), 0);
  EXPECT_EQ(config.token_grid(3, 9).num_overview(), 0) << "larger in one direction alone";
  const TokenGrid grid = config.token_grid(6, 12);
  EXPECT_EQ(grid.overview_rows, 3);
  EXPECT_EQ(grid.overview_columns, 6);
  EXPECT_EQ(grid.num_tokens(), 1 + 72 + 18);
  const TokenGrid panorama = config.token_grid(4, 400);
  EXPECT_EQ(panorama.overview_rows, 1);
  EXPECT_EQ(panorama.overview_columns, 16) << "four training grids";
  model::VisionTransformer model = model_of(config);
  const at::Tensor constant = at::full({1, 3, 48, 64}, 0.5, at::kDouble);
  const TokenGrid twice = model->grid_of(constant);
  const at::Tensor tokens = model->embed(constant, twice);
  const at::Tensor small = constant.narrow(2, 0, 24).narrow(3, 0, 32);
  const at::Tensor expected = model->embed(small, model->grid_of(small));
  EXPECT_TRUE(all_near(tokens.slice(1, 1 + 48), expected.slice(1, 1), 1e-6));
  EXPECT_EQ(model->forward(constant).sizes(), at::IntArrayRef({1, 5}));
}

TEST(SparseModelTest, MechanismsThatKnowOneGridHaveNoOverview) {
  for (const char* name : {"softmax", "hydra", "hedgehog", "window", "neighborhood", "elu"}) {
    model::VitConfig config = small_model(name);
    config.overview = true;
    EXPECT_NO_THROW(validate(config)) << name;
  }
  for (const char* name : {"linformer", "nystrom", "cosformer"}) {
    model::VitConfig config = small_model(name);
    config.overview = true;
    EXPECT_ERROR(validate(config), invalid_argument, "overview", name);
  }
}

TEST(SparseModelTest, AModelRemembersTheNumbersOfItsTrainingGrid) {
  model::VitConfig config = small_model("window");
  config.attention.back() = spec_of("neighborhood", {{"window", "5"}});
  const model::VitConfig stored = model::VisionTransformer(config)->config();
  EXPECT_EQ(stored.attention.front().options.at("size"), "3x4");
  EXPECT_EQ(stored.attention.back().options.at("window"), "5");
  model::VitConfig larger = stored;
  larger.img_height = larger.img_width = 64;
  EXPECT_EQ(model::VisionTransformer(larger)->config().attention, stored.attention);
  EXPECT_EQ(model::with_all_options({spec_of("window")}, {1, 7, 7}).front().options.at("size"),
            "7");
}

}  // namespace sparse_model_test
}  // namespace hydrascope::testing
