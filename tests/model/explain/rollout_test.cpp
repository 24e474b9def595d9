// rollout, grad-rollout, attn-gradcam and gradcam: the explicit matrices' products, and autograd
// through the whole model.
#include "tests/error_matchers.h"
#include "tests/model/attention/registry_cases.h"
#include "tests/model/explain/brute_force.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::testing {
namespace rollout_test {

using model::explain::Explanation;
using model::explain::MaplessLayers;
using model::explain::Method;
using model::explain::Request;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;  // of the largest value, float32 against double

/// Every mechanism as a network of its own.
class ExplicitMatricesTest : public RegistryCase {};

TEST_P(ExplicitMatricesTest, RolloutIsTheirProduct) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8, 6);
  const bool is_rolled = entry().rows_sum_to_one;
  const auto mapless = is_rolled ? MaplessLayers::skip : MaplessLayers::cosine;
  for (const std::int64_t layer : {2, 1}) {
    const Request request{Method::rollout, layer, 0, false, mapless};
    const Explanation found = truth.explain(request);
    EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance);
    EXPECT_EQ(found.rules.size(), static_cast<std::size_t>(layer + 1));
    EXPECT_EQ(found.is_signed, is_rolled && !entry().non_negative);
    EXPECT_NEAR(found.total, 1, 1e-4);
  }
}

TEST_P(ExplicitMatricesTest, WeightedByGradients) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8, 7);
  for (const Method method : {Method::grad_rollout, Method::attn_gradcam}) {
    for (const std::int64_t layer : {2, 1}) {
      const Request request{method, layer, 4};
      const Explanation found = truth.explain(request);
      EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance)
          << entry_of(method).name << ", layer " << layer;
      EXPECT_FALSE(found.is_signed);
      EXPECT_GE(all_heat(found).min().item<double>(), 0);
      if (method == Method::grad_rollout) {
        EXPECT_NEAR(found.total, 1, 1e-4);
      }
    }
  }
}

TEST_P(ExplicitMatricesTest, ActivationsAreThoseOfTheWholeModelsGradient) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8, 8);
  for (const std::int64_t layer : {2, 0}) {
    const Request request{Method::gradcam, layer, 9};
    const Explanation found = truth.explain(request);
    EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance)
        << "layer " << layer;
    EXPECT_FALSE(found.is_signed);
    EXPECT_THAT(found.note, HasSubstr("norm1"));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ExplicitMatricesTest, all_entries(), entry_name);

/// Gradients pass through RMSNorm, the norm of an MLP and the norm of the patches as they are.
TEST(OtherNormsTest, MapsAreThoseOfTheWholeModelsGradient) {
  model::VitConfig config = small_config("softmax:0-1,hedgehog:2");
  config.rms_norm = config.patch_norm = config.scale_mlp = true;
  config.proj_bias = false;
  const BruteForce truth(config, 8, 8, 10);
  for (const Method method : {Method::grad_rollout, Method::attn_gradcam, Method::gradcam}) {
    for (const std::int64_t layer : {2, 1}) {
      const Request request{method, layer, 3};
      EXPECT_LT(relative_to_largest(all_heat(truth.explain(request)), truth.heat(request)),
                kTolerance)
          << entry_of(method).name << ", layer " << layer;
    }
  }
}

TEST(MixedRolloutTest, LayersWithoutAMapAreSkippedOrACosine) {
  const BruteForce truth(small_config("softmax:0,hydra:1,hedgehog:2"), 5, 9, 9);
  Request request{Method::rollout, 2};
  const Explanation skipped = truth.explain(request);
  EXPECT_LT(relative_to_largest(all_heat(skipped), truth.heat(request)), kTolerance);
  EXPECT_THAT(skipped.rules, ElementsAre("softmax map", "hydra skipped", "hedgehog map"));
  EXPECT_EQ(skipped.note, "layers without a map whose rows sum to one (1) are skipped");
  request.mapless = MaplessLayers::cosine;
  const Explanation cosine = truth.explain(request);
  EXPECT_LT(relative_to_largest(all_heat(cosine), truth.heat(request)), kTolerance);
  EXPECT_THAT(cosine.rules,
              ElementsAre("softmax map", "1 + cos of hydra's q and k", "hedgehog map"));
  EXPECT_GT(relative_to_largest(all_heat(cosine), all_heat(skipped).to(at::kDouble)), 0.01);
  for (const Explanation* one : {&skipped, &cosine}) EXPECT_NEAR(one->total, 1, 1e-5);
}

TEST(MixedRolloutTest, SignedRowsAreSaidToBe) {
  const BruteForce truth(small_config("mla:0,rfa:1,aft:2"), 8, 8, 10);
  const Explanation found = truth.explain({Method::rollout, 2});
  EXPECT_TRUE(found.is_signed);
  EXPECT_THAT(found.note, HasSubstr("(0, 2) are skipped; signed rows"));
  EXPECT_LT(relative_to_largest(all_heat(found), truth.heat({Method::rollout, 2})), kTolerance);
}

TEST(MixedRolloutTest, NothingToRollOut) {
  const BruteForce truth(small_config("hydra:0-1,softmax:2"), 8, 8, 11);
  EXPECT_ERROR(truth.explain({Method::rollout, 1}), invalid_argument,
               "no layer up to 1 has an attention map", "hydra", "gradcam");
  EXPECT_NO_THROW(truth.explain({Method::rollout, 2}));
  EXPECT_NO_THROW(truth.explain({Method::rollout, 1, 0, false, MaplessLayers::cosine}));
}

}  // namespace rollout_test
}  // namespace hydrascope::testing
