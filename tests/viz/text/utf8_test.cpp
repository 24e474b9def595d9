#include "viz/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrascope::viz {
namespace utf8_test {

std::u32string decoded(std::string_view text) {
  std::u32string all;
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    all += next.value;
    text.remove_prefix(next.bytes);
  }
  return all;
}

TEST(Utf8Test, CharactersOfOneToFourBytes) {
  EXPECT_EQ(decoded("aé\u03A9ж漢\U0001F9A6"), U"aé\u03A9ж漢\U0001F9A6");
  EXPECT_EQ(decoded("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF"), U"\x7F\x80\u07FF\u0800\uFFFF");
  EXPECT_EQ(decoded("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), U"\U00010000\U0010FFFF");
  EXPECT_EQ(decoded(std::string_view("a\0b", 3)), std::u32string(U"a\0b", 3));
}

TEST(Utf8Test, WhatIsNoUtf8IsReplacedAPartAtATime) {
  EXPECT_EQ(decoded("a\xFF"
                    "b"),
            U"a\uFFFDb");
  EXPECT_EQ(decoded("\x80\xBF"), U"\uFFFD\uFFFD");
  EXPECT_EQ(decoded("\xC0\xAF"), U"\uFFFD\uFFFD") << "longer than needed";
  EXPECT_EQ(decoded("\xE0\x9F\xBF"), U"\uFFFD\uFFFD\uFFFD") << "longer than needed";
  EXPECT_EQ(decoded("\xED\xA0\x80"), U"\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(decoded("\xF4\x90\x80\x80"), U"\uFFFD\uFFFD\uFFFD\uFFFD") << "above U+10FFFF";
  EXPECT_EQ(decoded("\xE6\xBC"), U"\uFFFD") << "cut off";
  EXPECT_EQ(decoded("\xF0\x9F\xA6z"), U"\uFFFDz");
  EXPECT_EQ(decoded("caf\xE9 cr\xE8me"), U"caf\uFFFD cr\uFFFDme") << "Latin-1";
}

}  // namespace utf8_test
}  // namespace hydrascope::viz
