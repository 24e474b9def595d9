#include "model/weight_table.h"

#include "kernels/error.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace hydrascope::model {
namespace weight_table_test {

static_assert(!std::is_copy_constructible_v<WeightTable> && std::is_move_assignable_v<WeightTable>,
              "take_modules gives a table's modules to one owner");

TEST(WeightTableTest, AModelFillsAnotherWholeOrInParts) {
  const VisionTransformer filled = inference::filled(inference::small("hedgehog"));
  const WeightTable weights(filled);
  EXPECT_TRUE(weights.has("blocks.2.attn.qkv.weight"));
  EXPECT_FALSE(weights.has("blocks.7.attn.qkv.weight"));
  EXPECT_ERROR(weights.get("blocks.7.attn.qkv.weight"), internal, "blocks.7.attn.qkv.weight");
  VisionTransformer whole(filled->config(), Initialisation::for_loading);
  fill(*whole, weights);
  VisionTransformer in_parts(filled->config(), Initialisation::for_loading);
  fill(*in_parts, weights, "", is_outside_blocks);
  for (std::int64_t layer = 0; layer < filled->config().depth; ++layer)
    fill(in_parts->block(layer), weights, block_prefix(layer));
  for (const auto& [name, tensor] : named_tensors(*filled)) {
    EXPECT_TRUE(at::equal(WeightTable(whole).get(name), tensor)) << name;
    EXPECT_TRUE(at::equal(WeightTable(in_parts).get(name), tensor)) << name;
  }
}

TEST(WeightTableTest, RandomMatricesAreTheSameEachTimeTheyAreRead) {
  const VisionTransformer modules(inference::small("hedgehog:0,linformer:1,hydra:2"),
                                  Initialisation::for_loading);
  at::manual_seed(1);
  const WeightTable weights = random_weights(modules.ptr());
  const at::Tensor weight = weights.get("blocks.1.mlp.fc1.weight");
  EXPECT_EQ(weight.sizes(), (at::IntArrayRef{384, 96}));
  EXPECT_NEAR(weight.std().item<double>(), kInitStd, 1e-3);
  EXPECT_TRUE(at::equal(weights.get("blocks.1.mlp.fc1.weight"), weight));
  EXPECT_FALSE(at::equal(weights.get("blocks.2.mlp.fc1.weight"), weight));
  EXPECT_EQ(weights.get("blocks.1.mlp.fc1.bias").abs().sum().item<double>(), 0);
  at::manual_seed(2);
  EXPECT_FALSE(at::equal(random_weights(modules.ptr()).get("blocks.1.mlp.fc1.weight"), weight));
  // The modules have the rest: all but weight and bias of four layers in each block.
  int drawn = 0;
  for (const auto& [name, tensor] : named_tensors(*modules))
    drawn += weights.get(name).data_ptr() == tensor.data_ptr() ? 0 : 1;
  EXPECT_EQ(drawn, 3 * 8) << "what mechanisms add is none of them";
}

}  // namespace weight_table_test
}  // namespace hydrascope::model
