#include "model/registry/map_methods.h"

#include "tests/model/attention/registry_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::model::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MethodTest, NamesAreTheContractsAndFoundAgain) {
  std::string names;
  for (const MethodEntry& entry : methods()) {
    names += std::string(entry.name) + " ";
    EXPECT_EQ(find_method_or_null(entry.name), &entry);
    EXPECT_EQ(&entry_of(entry.method), &entry);
  }
  EXPECT_EQ(names, "hydra attention rollout grad-rollout gradcam attn-gradcam ");
  EXPECT_EQ(find_method_or_null("lime"), nullptr);
}

VitConfig config_of(const std::string& attention) {
  VitConfig config;
  config.attention.resize(static_cast<std::size_t>(config.depth));
  apply_attention_spec(attention, config.attention);
  return config;
}

class MethodOfMechanismTest : public hydrascope::testing::RegistryCase {};

TEST_P(MethodOfMechanismTest, FollowsFromWhatItsMapIs) {
  const VitConfig config = config_of(entry().name);
  for (const MethodEntry& method : methods()) {
    bool can = true;
    if (method.method == Method::attention) can = entry().has_map;
    if (method.method == Method::rollout) can = entry().rows_sum_to_one;
    EXPECT_EQ(why_not(config, method.method, 11).empty(), can) << method.name;
  }
  EXPECT_EQ(why_not(config, Method::rollout, 11, MaplessLayers::cosine), "");
}

INSTANTIATE_TEST_SUITE_P(Registry, MethodOfMechanismTest, hydrascope::testing::all_entries(),
                         hydrascope::testing::entry_name);

TEST(MethodTest, SaysWhyNotAndWhatIs) {
  const VitConfig config = config_of("softmax:0-9,hydra:10-11");
  EXPECT_EQ(why_not(config, Method::attention, 9), "");
  EXPECT_EQ(why_not(config, Method::attention, 10),
            "hydra has no attention map: every feature has one of its own");
  EXPECT_EQ(why_not(config, Method::rollout, 11), "");
  EXPECT_THAT(why_not(config, Method::hydra, 12), HasSubstr("0 to 11, not 12"));
  EXPECT_THAT(supported_methods(config, 11),
              ElementsAre("hydra", "rollout", "grad-rollout", "gradcam", "attn-gradcam"));
  EXPECT_THAT(supported_methods(config_of("hydra"), 11),
              ElementsAre("hydra", "grad-rollout", "gradcam", "attn-gradcam"));
}

}  // namespace
}  // namespace hydrascope::model::explain
