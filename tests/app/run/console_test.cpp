#include "app/run/console.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

TEST(WithFlags, SpellsTheFieldsOfOtherRoomsAsOptions) {
  EXPECT_EQ(with_flags("`precision` int8 with `kernels` reference"),
            "--precision int8 with --kernels reference");
  EXPECT_EQ(with_flags("`attention`"), "--attn");
  EXPECT_EQ(with_flags("`hydrascope doctor` or `device` cpu"),
            "`hydrascope doctor` or --device cpu");
  for (const char* text : {"", "`", "a ` b", "`unknown`", "``", "names like `a` and `b`"})
    EXPECT_EQ(with_flags(text), text);
  EXPECT_EQ(with_flags(std::vector<std::string>{"a", "`use_ema` takes them"}),
            (std::vector<std::string>{"a", "--use-ema takes them"}));
}

TEST(ErrorText, NamesWhatWhereAndWhatToDo) {
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "what `num_classes` says", "`keep_tokens`",
                             "`device` cpu has more")),
            "error: what --num-classes says (--keep-tokens)\nhint: --device cpu has more");
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "what")), "error: what");
}

}  // namespace
}  // namespace hydrascope::app
