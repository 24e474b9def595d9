#include "model/tensor_source.h"

#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model {
namespace tensor_source_test {

TEST(TensorSourceTest, AModelFillsAnotherInTwoParts) {
  const VisionTransformer filled = inference::filled(inference::small("hedgehog"));
  VisionTransformer other(filled->config(), Initialisation::for_loading);
  const TensorSource source = tensors_of(*filled);
  EXPECT_FALSE(source("blocks.7.attn.qkv.weight").defined());
  for (const bool block_linears : {false, true}) fill(*other, source, block_linears);
  const auto expected = named_tensors(*filled);
  const auto found = named_tensors(*other);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(found[i].second, expected[i].second)) << expected[i].first;
}

TEST(TensorSourceTest, BlocksLinearLayersAreFourOfEach) {
  int count = 0;
  const VisionTransformer model(inference::small("hedgehog:0,linformer:1,hydra:2"));
  for (const auto& [name, tensor] : named_tensors(*model)) count += is_block_linear(name) ? 1 : 0;
  EXPECT_EQ(count, 3 * 8) << "what mechanisms add is none of them";
}

TEST(TensorSourceTest, RandomMatricesAreTheSameEachTimeTheyAreRead) {
  const VisionTransformer modules(inference::small(), Initialisation::for_loading);
  at::manual_seed(1);
  const TensorSource source = random_block_linears(*modules);
  const at::Tensor weight = source("blocks.1.mlp.fc1.weight");
  EXPECT_EQ(weight.sizes(), (at::IntArrayRef{384, 96}));
  EXPECT_NEAR(weight.std().item<double>(), kInitStd, 1e-3);
  EXPECT_TRUE(at::equal(source("blocks.1.mlp.fc1.weight"), weight));
  EXPECT_FALSE(at::equal(source("blocks.2.mlp.fc1.weight"), weight));
  EXPECT_EQ(source("blocks.1.mlp.fc1.bias").abs().sum().item<double>(), 0);
  EXPECT_FALSE(source("pos_embed").defined()) << "the modules have theirs";
  at::manual_seed(2);
  EXPECT_FALSE(at::equal(random_block_linears(*modules)("blocks.1.mlp.fc1.weight"), weight));
}

}  // namespace tensor_source_test
}  // namespace hydrascope::model
