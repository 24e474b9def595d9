// hydra and attention: every mechanism, in the last block and before it.
#include "tests/error_matchers.h"
#include "tests/model/attention/registry_cases.h"
#include "tests/model/explain/brute_force.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hydrascope::testing {
namespace contributions_test {

using model::explain::Explanation;
using model::explain::Method;
using model::explain::Request;

constexpr double kTolerance = 1e-4;  // of the largest value, float32 against double

class ContributionsTest : public RegistryCase {};

TEST_P(ContributionsTest, OfEveryLayerAndHeadAreTheDefinitions) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8);
  for (const std::int64_t layer : {2, 1, 0}) {
    for (const bool per_head : {false, true}) {
      const Request request{Method::hydra, layer, 7, per_head};
      const Explanation found = truth.explain(request);
      EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance)
          << "layer " << layer << (per_head ? ", heads" : "");
      const double whole = truth.gradient_dot_output(layer, 7);
      const double size = all_heat(found).abs().sum().item<double>();
      EXPECT_NEAR(found.total, whole, kTolerance * std::abs(whole) + 1e-6 * size);
      EXPECT_TRUE(found.is_signed);
    }
  }
}

TEST_P(ContributionsTest, AreTheDerivativeByATokensShare) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8, 2);
  for (const std::int64_t layer : {2, 0}) {
    const Explanation found = truth.explain({Method::hydra, layer, 3});
    EXPECT_LT(relative_to_largest(all_heat(found), truth.derivative_by_share(layer, 3)), kTolerance)
        << "layer " << layer;
  }
}

TEST_P(ContributionsTest, AttentionIsTheReadoutsRow) {
  const BruteForce truth(mechanism_config(entry().name), 8, 8, 3);
  for (const std::int64_t layer : {2, 0}) {
    for (const bool per_head : {false, true}) {
      const Request request{Method::attention, layer, 0, per_head};
      if (!entry().has_map) {
        EXPECT_ERROR(truth.explain(request), invalid_argument, "has no attention map", "hydra");
        continue;
      }
      const Explanation found = truth.explain(request);
      EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance);
      EXPECT_EQ(found.is_signed, !entry().non_negative);
      EXPECT_EQ(found.note.empty(), entry().non_negative);
      if (entry().rows_sum_to_one) {
        EXPECT_NEAR(found.total, per_head ? 3 : 1, 1e-4);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ContributionsTest, all_entries(), entry_name);

/// The differences from one vision transformer to the next, on a grid that is not the one of
/// training; with a name for messages.
struct Shape {
  const char* name;
  void (*change)(model::VitConfig&);
};

const Shape kShapes[]{{"distilled", [](model::VitConfig& c) { c.distilled = true; }},
                      {"registers", [](model::VitConfig& c) { c.reg_tokens = 4; }},
                      {"layer scale", [](model::VitConfig& c) { c.layer_scale = true; }},
                      {"no bias", [](model::VitConfig& c) { c.qkv_bias = false; }},
                      {"pooled", [](model::VitConfig& c) { c.global_pool = model::Pooling::avg; }},
                      {"pooled, then normalised",
                       [](model::VitConfig& c) {
                         c.global_pool = model::Pooling::avg;
                         c.fc_norm = true;
                       }},
                      {"no class token", [](model::VitConfig& c) {
                         c.global_pool = model::Pooling::avg;
                         c.class_token = false;
                       }}};

TEST(ExplainedShapesTest, EveryMethodOfEveryShapeOfModel) {
  for (const Shape& shape : kShapes) {
    model::VitConfig config = small_config("softmax:0,hydra:1,hedgehog:2");
    shape.change(config);
    const BruteForce truth(config, 5, 7, 4);
    for (const auto& method : model::explain::methods()) {
      const Request request{method.method, 2, 5};
      const Explanation found = truth.explain(request);
      EXPECT_EQ(found.map.sizes(), (at::IntArrayRef{5, 7})) << shape.name;
      EXPECT_EQ(found.prefix.size(0), config.num_prefix_tokens());
      EXPECT_LT(relative_to_largest(all_heat(found), truth.heat(request)), kTolerance)
          << shape.name << ", " << method.name;
    }
  }
}

TEST(ExplainedShapesTest, MoreTokensThanAChunk) {
  for (const char* const attention : {"softmax", "hydra", "hedgehog"}) {
    for (const bool pooled : {false, true}) {
      model::VitConfig config = small_config(attention);
      config.embed_dim = 24;
      config.depth = 2;
      config.attention.resize(2);
      if (pooled) config.global_pool = model::Pooling::avg;
      const BruteForce truth(config, 31, 34, 5);
      for (const Request& request : std::vector<Request>{{Method::hydra, 1, 5},
                                                         {Method::hydra, 0, 5},
                                                         {Method::gradcam, 1, 5},
                                                         {Method::gradcam, 0, 5}}) {
        EXPECT_LT(relative_to_largest(all_heat(truth.explain(request)), truth.heat(request)),
                  kTolerance)
            << attention << ", layer " << request.layer << (pooled ? ", pooled" : "");
      }
    }
  }
}

}  // namespace contributions_test
}  // namespace hydrascope::testing
