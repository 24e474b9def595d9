// A mechanism is one file: this one is registered here, in the tests alone, and nothing else names it.
// Being linked is all it takes for `--attn` to know it and for every suite over the registry to run
// on it. A mechanism with a kernel is three files, added/: added_mechanism_test.py puts them into a copy
// of the tree.
#include "model/attention/linear/linear_mechanism.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hydrascope::testing {
namespace added_mechanism_test {

constexpr const char* kName = "test_sigmoid";

const model::MechanismRegistration kSigmoid(model::elementwise_mechanism(
    {.name = kName, .summary = "linear attention with phi = sigmoid", .citation = "these tests"},
    at::sigmoid));

TEST(AddedMechanismTest, IsChosenAndRuns) {
  model::VitConfig config;
  config.img_height = config.img_width = 32;
  config.embed_dim = 24;
  config.num_heads = 3;
  config.depth = 3;
  config.attention.resize(3);
  model::apply_attention_spec("test_sigmoid:last2", config.attention);
  model::apply_attention_option("test_sigmoid.local=window7", config.attention);
  EXPECT_EQ(model::to_text(config.attention), "softmax:0,test_sigmoid:1-2");
  EXPECT_EQ(model::config_from_json(model::to_json(config, -1), "x"), config);
  const c10::InferenceMode inference;
  model::VisionTransformer module(config);
  EXPECT_TRUE(at::isfinite(module->forward(at::randn({1, 3, 32, 32}))).all().item<bool>());
}

TEST(AddedMechanismTest, EverySuiteOverTheRegistryHasACaseForIt) {
  const ::testing::UnitTest& program = *::testing::UnitTest::GetInstance();
  std::set<std::string> suites;
  std::set<std::string> with_this_one;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *program.GetTestSuite(i);
    if (!std::string(suite.name()).starts_with("Registry/")) continue;
    suites.insert(suite.name());
    for (int j = 0; j < suite.total_test_count(); ++j) {
      if (std::string(suite.GetTestInfo(j)->name()).ends_with(std::string("/") + kName))
        with_this_one.insert(suite.name());
    }
  }
  EXPECT_GE(suites.size(), 4U);
  EXPECT_EQ(with_this_one, suites);
}

}  // namespace added_mechanism_test
}  // namespace hydrascope::testing
