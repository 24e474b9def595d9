#include "model/training/distillation/teacher.h"

#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace teacher_test {

// A layer that the plan runs as a module, whose parameters it takes along in its own type.
TEST(TeacherTest, CompilingLeavesTheTeachersWeightsAlone) {
  const VitConfig config = small_config("softmax:0,nystrom:1,hydra:2");
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Teacher teacher(random_model(config));
    const at::Tensor images = random_images(2);
    const at::Tensor expected = teacher.logits(images).clone();
    std::vector<at::Tensor> before;
    for (const at::Tensor& parameter : teacher.model().parameters())
      before.push_back(parameter.clone());
    teacher.compile(dtype, 1);
    const at::Tensor compiled = teacher.logits(images);
    EXPECT_LT((compiled - expected).norm().item<double>() / expected.norm().item<double>(),
              dtype == at::kFloat ? 1e-4 : 5e-2);
    const std::vector<at::Tensor> after = teacher.model().parameters();
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_TRUE(at::equal(after[i], before[i])) << "parameter " << i;
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
  const TeacherPass expected = teacher.look(images);
  const TeacherAttention attention = teacher.look_at_attention(images, {0, 2});
  teacher.compile(at::kFloat, 1);
  const TeacherPass found = teacher.look(images);
  const TeacherAttention compiled = teacher.look_at_attention(images, {1, 2});
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).norm().item<double>() / b.norm().item<double>();
  };
  for (const std::size_t layer : {1U, 2U})
    EXPECT_LT(error(found.tokens[layer], expected.tokens[layer]), 1e-5);
  EXPECT_LT(error(found.logits, expected.logits), 1e-5);
  EXPECT_LT(error(attention.layers[1].tokens, expected.tokens[2]), 1e-5);
  EXPECT_LT(error(compiled.layers[1].tokens, expected.tokens[2]), 1e-5);
}

TEST(TeacherTest, CompilingInitialisesNoBlocksOfItsOwn) {
  std::vector<at::Tensor> drawn_next;
  for (const double mlp_ratio : {1.0, 4.0}) {  // of the blocks alone
    VitConfig config = small_config();
    config.mlp_ratio = mlp_ratio;
    Teacher teacher(random_model(config));
    at::manual_seed(1);
    teacher.compile(at::kFloat, 0);
    drawn_next.push_back(at::rand({4}));
  }
  EXPECT_TRUE(at::equal(drawn_next[0], drawn_next[1])) << "random numbers were drawn for blocks";
}

}  // namespace teacher_test
}  // namespace hydrascope::model::training
