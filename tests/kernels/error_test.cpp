#include "kernels/error.h"

#include <gtest/gtest.h>

#include <set>

namespace hydrascope {
namespace {

TEST(ErrorTest, CodesHaveTheSpellingOfTheContract) {
  EXPECT_EQ(name(ErrorCode::not_found), "not_found");
  EXPECT_EQ(name(ErrorCode::unreadable), "unreadable");
  EXPECT_EQ(name(ErrorCode::unwritable), "unwritable");
  EXPECT_EQ(name(ErrorCode::decode_failed), "decode_failed");
  EXPECT_EQ(name(ErrorCode::unsupported_format), "unsupported_format");
  EXPECT_EQ(name(ErrorCode::too_large), "too_large");
  EXPECT_EQ(name(ErrorCode::empty), "empty");
  EXPECT_EQ(name(ErrorCode::out_of_memory), "out_of_memory");
  EXPECT_EQ(name(ErrorCode::internal), "internal");
}

TEST(ErrorTest, KeepsWhatItIsToldAndWhereItWasThrown) {
  try {
    throw Error(ErrorCode::failed, "what", "subject", "hint");
  } catch (const std::runtime_error& caught) {
    const auto& error = dynamic_cast<const Error&>(caught);
    EXPECT_STREQ(error.what(), "what");
    EXPECT_EQ(error.subject(), "subject");
    EXPECT_EQ(error.hint(), "hint");
    EXPECT_TRUE(std::string_view(error.where().file_name()).ends_with("error_test.cpp"));
  }
}

TEST(ErrorTest, IsAboutAFieldAndASubject) {
  const auto parts = [](const char* about) {
    const Error error(ErrorCode::failed, "what", about);
    return error.field() + "|" + error.subject() + "|" + error.about();
  };
  EXPECT_EQ(parts("`img_size` 12x"), "img_size|12x|`img_size` 12x");
  EXPECT_EQ(parts("`img_size`"), "img_size||`img_size`");
  EXPECT_EQ(parts("`native` with `lr`"), "native|with `lr`|`native` with `lr`");
  EXPECT_EQ(parts("a.png"), "|a.png|a.png");
  EXPECT_EQ(parts("`a b` c"), "|`a b` c|`a b` c");
  EXPECT_EQ(parts("`"), "|`|`");
  EXPECT_EQ(parts(""), "||");
}

}  // namespace
}  // namespace hydrascope
