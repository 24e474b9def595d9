#include "model/registry/memories.h"

#include "model/config/config.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::model {
namespace memories_test {

// Memories and mechanisms that exist in this test program only.
const MemoryRegistration kSums({.name = "test_sums",
                                .aliases = {"test_s"},
                                .options = {NumberOption("lambda", "0.5", 0, 1, "weight")},
                                .keeps = MemoryEntry::Keeps::state});
const MemoryRegistration kTokens({.name = "test_tokens", .keeps = MemoryEntry::Keeps::tokens});
const MechanismRegistration kWithState({.name = "test_state", .has_state = true});
const MechanismRegistration kWithOthers({.name = "test_others",
                                         .takes_positions = true,
                                         .takes_other_tokens = true});

VitConfig config_of(const std::string& attention) {
  VitConfig config;
  config.depth = 6;
  config.attention.resize(6);
  apply_attention_spec(attention, config.attention);
  return config;
}

TEST(MemorySpecTest, WithoutLayersItIsForThoseThatCanHaveIt) {
  const VitConfig config = config_of("test_others:0-3,test_state:4-5");
  EXPECT_EQ(to_text(choose_memories("test_s", {}, config)),
            "none:0-3,test_sums:4-5 test_sums.lambda=0.5");
  EXPECT_EQ(to_text(choose_memories("test_tokens", {}, config)), "test_tokens:0-3,none:4-5");
  EXPECT_EQ(
      to_text(choose_memories("test_sums:last1,test_tokens:0", {"test_sums.lambda=0.25"}, config)),
      "test_tokens:0,none:1-4,test_sums:5 test_sums.lambda=0.25");
  EXPECT_TRUE(choose_memories("", {}, config).empty());
  EXPECT_TRUE(choose_memories("none", {}, config).empty());
}

TEST(MemorySpecTest, RefusesLayersThatCannotHaveIt) {
  VitConfig config = config_of("test_others:0-3,test_state:4-5");
  EXPECT_ERROR(choose_memories("test_sums:3-5", {}, config), invalid_argument,
               "'test_others' of layer 3 has no sums", "`memory` test_sums:3-5");
  EXPECT_ERROR(choose_memories("test_tokens:5", {}, config), invalid_argument,
               "'test_state' of layer 5 takes no keys of other pictures");
  EXPECT_ERROR(choose_memories("test_sums", {}, config_of("test_others")), invalid_argument,
               "has no sums over the tokens");
  config.rel_pos.assign(6, {"test_rule", {}});
  EXPECT_ERROR(choose_memories("test_tokens", {}, config), invalid_argument,
               "the position rule of layer");
}

TEST(MemorySpecTest, RefusesWhatItCannotMean) {
  const VitConfig config = config_of("test_state");
  EXPECT_ERROR(choose_memories("test_sum", {}, config), invalid_argument, "test_sum", "test_sums");
  EXPECT_ERROR(choose_memories("test_sums", {"test_sums.lamda=1"}, config), invalid_argument,
               "lamda", "`memory_opt`");
  EXPECT_ERROR(choose_memories("test_sums", {"test_sums.lambda=2"}, config), invalid_argument,
               "test_sums.lambda");
  EXPECT_ERROR(choose_memories("", {"test_sums.lambda=1"}, config), invalid_argument,
               "no layer has test_sums", "`memory`");
}

}  // namespace memories_test
}  // namespace hydrascope::model
