#include "app/maps/map_choice.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hydrascope::app {
namespace map_choice_test {

using model::explain::Method;

model::VitConfig config(const std::string& attention) {
  model::VitConfig made;
  made.depth = 4;
  made.attention.resize(4);
  model::apply_attention_spec(attention, made.attention);
  return made;
}

/// "attention.3.mean", in their order.
std::vector<std::string> names(const MapSelection& selection) {
  std::vector<std::string> result;
  for (const MapChoice& map : selection.maps)
    result.push_back(std::string(model::explain::entry_of(map.method).name) + "." +
                     std::to_string(map.layer) + "." + to_text(map.head));
  return result;
}

using Names = std::vector<std::string>;

TEST(ChooseMapsTest, TheDefaultIsWhatTheLastLayerContributesToTheClass) {
  for (const char* attention : {"softmax", "hydra:last2", "polynl"}) {
    const MapSelection selection = choose_maps(config(attention), {});
    EXPECT_EQ(names(selection), (Names{"hydra.3.mean"})) << attention;
    EXPECT_TRUE(selection.notes.empty());
  }
}

TEST(ChooseMapsTest, AMethodThatKnowsNoClassesSaysSoWhereClassesAreAskedFor) {
  const MapSelection selection =
      choose_maps(config("softmax"), {{"attention", "hydra"}, {}, {}, true});
  EXPECT_EQ(selection.notes, (Names{"attention is the same for every class: one map"}));
  EXPECT_TRUE(choose_maps(config("softmax"), {{"attention"}, {}, {}, false}).notes.empty());
}

TEST(ChooseMapsTest, ListsAreCrossed) {
  const MapSelection selection =
      choose_maps(config("softmax"), {{"attention", "hydra"}, {"0", "last"}, {"mean", "1"}, false});
  EXPECT_EQ(names(selection),
            (Names{"attention.0.mean", "attention.0.1", "attention.3.mean", "attention.3.1",
                   "hydra.0.mean", "hydra.0.1", "hydra.3.mean", "hydra.3.1"}));
}

TEST(ChooseMapsTest, AllLayersAndAllHeads) {
  EXPECT_EQ(
      names(choose_maps(config("softmax"), {{"attention"}, {"all"}, {}, false})),
      (Names{"attention.0.mean", "attention.1.mean", "attention.2.mean", "attention.3.mean"}));
  EXPECT_EQ(names(choose_maps(config("softmax"), {{"attention"}, {}, {"all", "max"}, false})),
            (Names{"attention.3.0", "attention.3.1", "attention.3.2", "attention.3.max"}));
}

TEST(ChooseMapsTest, WhatIsNamedTwiceComesOnce) {
  EXPECT_EQ(names(choose_maps(config("softmax"),
                              {{"attention", "attention"}, {"3", "last"}, {"0", "all"}, false})),
            (Names{"attention.3.0", "attention.3.1", "attention.3.2"}));
}

TEST(ChooseMapsTest, AllLayersAreThoseThatTheMethodExplains) {
  const MapSelection selection =
      choose_maps(config("softmax:0-1,hydra:2-3"), {{"attention"}, {"all"}, {}, false});
  EXPECT_EQ(names(selection), (Names{"attention.0.mean", "attention.1.mean"}));
  ASSERT_EQ(selection.notes.size(), 1U);
  EXPECT_TRUE(selection.notes.front().starts_with("layers 2-3 left out: "))
      << selection.notes.front();
}

TEST(ChooseMapsTest, WithAMemoryFewerMapsCanBe) {
  const auto chosen = [](const std::vector<std::string>& methods,
                         const std::vector<std::string>& layers,
                         const std::vector<std::string>& heads = {}) {
    return choose_maps(config("softmax"),
                       {.methods = methods, .layers = layers, .heads = heads, .remembers = true});
  };
  EXPECT_EQ(names(chosen({"attention", "hydra"}, {"last"}, {"mean", "1"})),
            (Names{"attention.3.mean", "attention.3.1", "hydra.3.mean", "hydra.3.1"}));
  EXPECT_EQ(names(chosen({"attention"}, {"0"})), (Names{"attention.0.mean"}));
  const MapSelection of_all = chosen({"hydra"}, {"all"});
  EXPECT_EQ(names(of_all), (Names{"hydra.3.mean"}));
  EXPECT_EQ(of_all.notes, (Names{"layers 0-2 left out: hydra below the last layer goes through "
                                 "several layers, each with frames of its own"}));
  EXPECT_ERROR(chosen({"hydra"}, {"2"}), invalid_argument, "`memory` with `method` hydra, layer 2");
  EXPECT_ERROR(chosen({"gradcam"}, {"all"}), invalid_argument, "gradcam goes through several");
  EXPECT_ERROR(chosen({"attention"}, {"last"}, {"max"}), invalid_argument,
               "`memory` with `head` max");
}

TEST(ChooseMapsTest, WhatCannotBeIsRefusedWithWhatCan) {
  const model::VitConfig hydra = config("hydra");
  EXPECT_ERROR(choose_maps(hydra, {{"attention"}, {}, {}, false}), invalid_argument,
               "`method` attention, layer 3", "layer 3 supports hydra");
  EXPECT_ERROR(choose_maps(hydra, {{"attention"}, {"all"}, {}, false}), invalid_argument,
               "`method` attention");
  EXPECT_ERROR(choose_maps(hydra, {{"atention"}, {}, {}, false}), invalid_argument,
               "unknown method", "did you mean attention?");
  EXPECT_ERROR(choose_maps(hydra, {{}, {"4"}, {}, false}), invalid_argument, "`layer`",
               "has layers 0 to 3");
  EXPECT_ERROR(choose_maps(hydra, {{}, {"first"}, {}, false}), invalid_argument, "`layer`");
  EXPECT_ERROR(choose_maps(hydra, {{}, {}, {"3"}, false}), invalid_argument, "`head`", "0 to 2");
  EXPECT_ERROR(choose_maps(config("softmax"), {{"rollout"}, {}, {"max"}, false}), invalid_argument,
               "`head` max", "rollout has one map for all heads");
}

}  // namespace map_choice_test
}  // namespace hydrascope::app
