#include "model/training/parallel/shared_weights.h"

#include "model/vision_transformer.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/model/training/parallel/ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

// Performer's random features are a buffer, the patch embedding is frozen.
TEST(SharedWeightsTest, EverythingIsRankZeros) {
  if (testing::run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const VitConfig config = small_config("performer");
  const auto drawn_from = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return VisionTransformer(config);
  };
  VisionTransformer model = drawn_from(static_cast<std::uint64_t>(group->rank()));
  model->named_parameters()["patch_embed.proj.weight"].set_requires_grad(false);
  const VisionTransformer expected = drawn_from(0);
  share_weights(*model, *group);
  const auto theirs = named_tensors(*expected);
  const auto ours = named_tensors(*model);
  ASSERT_EQ(ours.size(), theirs.size());
  bool has_buffer = false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i].second, theirs[i].second)) << ours[i].first;
    has_buffer |= model->named_buffers().contains(ours[i].first);
  }
  EXPECT_TRUE(has_buffer);
  EXPECT_TRUE(model->named_parameters()["head.weight"].requires_grad());
}

}  // namespace
}  // namespace hydrascope::model::training
