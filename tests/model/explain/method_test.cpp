#include "model/explain/method.h"

#include <gtest/gtest.h>

namespace hydrascope::model::explain {
namespace {

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

}  // namespace
}  // namespace hydrascope::model::explain
