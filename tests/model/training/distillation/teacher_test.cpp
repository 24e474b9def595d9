#include "model/training/distillation/teacher.h"

#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model::training {
namespace teacher_test {

/// A compiled teacher sees at `layers`, which may be 0 to depth 3, what `seen` of the layers from `first` on holds.
void expect_compiled(Teacher& teacher, const at::Tensor& images,
                     const std::vector<std::int64_t>& layers, const TeacherPass& seen,
                     std::int64_t first) {
  const TeacherPass compiled = teacher.look(images, layers);
  ASSERT_EQ(compiled.tokens.size(), layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < first) continue;
    const at::Tensor& expected = seen.tokens[static_cast<std::size_t>(layers[i] - first)];
    ASSERT_EQ(compiled.tokens[i].sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(compiled.tokens[i], expected, 1e-4, 1e-4)) << layers[i];
  }
  ASSERT_EQ(compiled.answers.defined(), layers.back() == 3);
  if (compiled.answers.defined()) {
    EXPECT_TRUE(at::allclose(compiled.answers, seen.answers, 1e-4, 1e-4));
  }
}

class TeacherViewTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, TeacherViewTest,
                         ::testing::Values("softmax", "window:0,hydra:1,window:2"),
                         [](const auto& attention) {
                           return std::string(attention.index == 0 ? "Softmax" : "Windows");
                         });

TEST_P(TeacherViewTest, SeesWhatTheModelComputes) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg}) {
    const bool has_windows = std::string_view(GetParam()).starts_with("window");
    VitConfig config =
        small_config(GetParam(), has_windows ? std::vector<std::string>{"window.size=2"}
                                             : std::vector<std::string>{});
    config.global_pool = pooling;
    config.distilled = pooling == Pooling::token;
    VisionTransformer model = random_model(config);
    const at::Tensor images = random_images(2);
    std::vector<at::Tensor> inputs;
    ForwardOptions options;
    options.block_inputs = &inputs;
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model->forward(images, options);
    Teacher teacher(model);
    const TeacherPass seen = teacher.look(images, {0, 1, 2, 3});
    ASSERT_EQ(seen.tokens.size(), 4);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(seen.tokens[i], inputs[i])) << i;
    EXPECT_EQ(seen.tokens[3].size(1), pooling == Pooling::token ? 2 : 17);
    EXPECT_TRUE(at::allclose(seen.answers, logits, 1e-5, 1e-5));
    EXPECT_TRUE(at::equal(teacher.answers(images), seen.answers));
    EXPECT_FALSE(seen.answers.requires_grad());

    const TeacherPass some = teacher.look(images, {0, 2});
    ASSERT_EQ(some.tokens.size(), 2);
    EXPECT_TRUE(at::equal(some.tokens[0], inputs[0]));
    EXPECT_TRUE(at::equal(some.tokens[1], inputs[2]));
    EXPECT_FALSE(some.answers.defined());

    teacher.compile(at::kFloat);
    for (const std::vector<std::int64_t>& layers :
         {std::vector<std::int64_t>{0, 1, 2, 3}, {1, 3}, {0, 2}, {0}, {3}})
      expect_compiled(teacher, images, layers, seen, 0);
    // A graph may keep the logits.
    const at::AutoGradMode with_grad(true);
    const at::Tensor weight = at::ones({5}).requires_grad_();
    (teacher.answers(images) * weight).sum().backward();
    EXPECT_TRUE(at::allclose(weight.grad(), logits.sum(0), 1e-4, 1e-4));
  }
}

TEST(TeacherTest, AModelWithoutClassesTeachesItsFeatures) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg, Pooling::map}) {
    for (const bool norms_last : {false, true}) {
      if (norms_last && pooling != Pooling::avg) continue;
      SCOPED_TRACE(std::string(name(pooling)) + (norms_last ? ", fc_norm" : ""));
      VitConfig config = small_tower("softmax", pooling);
      config.reg_tokens = 2;
      config.fc_norm = norms_last;
      VisionTransformer model = random_model(config);
      const at::NoGradGuard no_grad;
      const at::Tensor images = random_images(2);
      const at::Tensor tokens = model->forward_features(images);
      Teacher teacher(model);
      EXPECT_EQ(teacher.target(), Target::features);
      const at::Tensor answers = teacher.answers(images);
      ASSERT_EQ(answers.sizes(), at::IntArrayRef({2, 1 + 16, 24}));
      EXPECT_TRUE(at::allclose(answers.select(1, 0), model->forward_pool(tokens), 1e-5, 1e-5));
      EXPECT_TRUE(at::allclose(answers.slice(1, 1), tokens.slice(1, 3), 1e-5, 1e-5));

      const TeacherPass seen = teacher.look(images, {1, 2, 3});
      EXPECT_EQ(seen.tokens.back().size(1), 19) << "all tokens are compared";
      teacher.compile(at::kFloat);
      for (const std::vector<std::int64_t>& layers :
           {std::vector<std::int64_t>{1, 2, 3}, {1, 3}, {3}, {0, 2}})
        expect_compiled(teacher, images, layers, seen, 1);
      EXPECT_TRUE(at::allclose(teacher.answers(images), answers, 1e-4, 1e-4));
    }
  }
}

TEST(TeacherTest, TheTargetFollowsFromTheModelUnlessItIsNamed) {
  EXPECT_EQ(Teacher(random_model(small_config())).target(), Target::logits);
  EXPECT_EQ(Teacher(random_model(small_config()), Target::features).target(), Target::features);
  EXPECT_ERROR(Teacher(random_model(small_tower()), Target::logits), invalid_argument,
               "has no classes");
}

TEST(TeacherTest, FeaturesOfAFinerGridAreTheMeansOfThePatchesThatArePartOfAPatch) {
  const at::Tensor features = at::randn({2, 1 + 4 * 6, 3});
  const at::Tensor coarse = features_on(features, {1, 4, 6}, {1, 2, 3});
  ASSERT_EQ(coarse.sizes(), at::IntArrayRef({2, 1 + 6, 3}));
  EXPECT_TRUE(at::equal(coarse.select(1, 0), features.select(1, 0)));
  const at::Tensor grid = features.slice(1, 1).view({2, 4, 6, 3});
  // The patch of row 1 and column 2.
  EXPECT_TRUE(at::allclose(coarse.select(1, 1 + 5), grid.slice(1, 2, 4).slice(2, 4, 6).mean({1, 2}),
                           1e-5, 1e-6));
  EXPECT_TRUE(at::equal(features_on(features, {1, 4, 6}, {0, 4, 6}), features));
}

// The maps stage asks for these alone.
TEST(TeacherTest, QueriesAndKeysAreWhatTheMixerGets) {
  for (const char* mechanism : {"softmax", "polynl"}) {
    VisionTransformer model = random_model(small_config(mechanism));
    const at::NoGradGuard no_grad;
    const at::Tensor images = random_images(2);
    const TokenGrid grid = model->grid_of(images);
    const at::Tensor tokens = model->embed(images, grid);
    const AttentionTrace trace = trace_attention(*model, 0, tokens, grid);
    const auto [q, k] = queries_and_keys(*model, 0, tokens);
    EXPECT_TRUE(at::allclose(q, trace.q, 1e-6, 1e-6)) << mechanism;
    EXPECT_TRUE(at::allclose(k, trace.k, 1e-6, 1e-6)) << mechanism;
  }
}

// Also of a layer that the plan runs as a module, whose parameters it takes along in its own type.
TEST(TeacherTest, CompilingLeavesTheTeachersWeightsAlone) {
  const at::Tensor images = random_images(2);
  for (const char* attention : {"softmax:0,nystrom:1,hydra:2", "performer:0,softmax:1-2"}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      Teacher teacher(random_model(small_config(attention)));
      const TeacherPass expected = teacher.look(images, {2, 3});
      std::vector<at::Tensor> before;
      for (const at::Tensor& parameter : teacher.model().parameters())
        before.push_back(parameter.clone());
      teacher.compile(dtype);
      const TeacherPass compiled = teacher.look(images, {2, 3});
      EXPECT_LT((compiled.answers - expected.answers).norm().item<double>(),
                (dtype == at::kFloat ? 1e-4 : 5e-2) * expected.answers.norm().item<double>());
      if (dtype == at::kBFloat16) {
        EXPECT_FALSE(at::equal(compiled.tokens[0], expected.tokens[0]));
      }
      const std::vector<at::Tensor> after = teacher.model().parameters();
      ASSERT_EQ(after.size(), before.size());
      for (std::size_t i = 0; i < after.size(); ++i)
        EXPECT_TRUE(at::equal(after[i], before[i])) << "parameter " << i;
    }
  }
}

// Tables of positions in every layer and gated MLPs are in the plan and beside it.
TEST(TeacherTest, WhatEntersABlockIsTheSameCompiledOrNot) {
  VitConfig config = small_config();
  config.pos_embed = PosEmbed::layers;
  config.swiglu_mlp = true;
  VisionTransformer model = random_model(config);
  {
    const at::NoGradGuard no_grad;
    for (std::int64_t layer = 1; layer < config.depth; ++layer)
      at::Tensor(model->block(layer).pos_embed()).normal_();
  }
  Teacher teacher(model);
  const at::Tensor images = random_images(2);
  const TeacherPass expected = teacher.look(images, {1, 2, 3});
  teacher.compile(at::kFloat);
  const TeacherPass found = teacher.look(images, {1, 2, 3});
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).norm().item<double>() / b.norm().item<double>();
  };
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(error(found.tokens[i], expected.tokens[i]), 1e-5);
  EXPECT_LT(error(found.answers, expected.answers), 1e-5);
}

TEST(TeacherTest, CompilingInitialisesNoBlocksOfItsOwn) {
  std::vector<at::Tensor> drawn_next;
  for (const double mlp_ratio : {1.0, 4.0}) {  // of the blocks alone
    VitConfig config = small_config();
    config.mlp_ratio = mlp_ratio;
    Teacher teacher(random_model(config));
    at::manual_seed(1);
    teacher.compile(at::kFloat);
    drawn_next.push_back(at::rand({4}));
  }
  EXPECT_TRUE(at::equal(drawn_next[0], drawn_next[1])) << "random numbers were drawn for blocks";
}

}  // namespace teacher_test
}  // namespace hydrascope::model::training
