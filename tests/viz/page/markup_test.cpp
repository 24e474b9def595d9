#include "viz/page/markup.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

namespace hydrascope::viz::page {
namespace {

TEST(MarkupTest, TextIsUtf8) {
  EXPECT_EQ(valid_text("plain \u00e9 \u6c34 \U0001F9A6"), "plain \u00e9 \u6c34 \U0001F9A6");
  EXPECT_EQ(valid_text("a\xFF\xE6\xB0z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(valid_text(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(valid_text("tab\t line\n escape\x1B delete\x7F c1\u0085"),
            "tab\t line\n escape\uFFFD delete\uFFFD c1\uFFFD");
}

TEST(MarkupTest, MarkupIsEscaped) {
  EXPECT_EQ(escaped("<a b=\"c\" d='e'>&amp;\xFF"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;\uFFFD");
  EXPECT_EQ(escaped("a\u202egpj\u061c\u2066\u6c34\U0001F9A6"),
            "a\\u202egpj\\u061c\\u2066\u6c34\U0001F9A6");
}

TEST(MarkupTest, Base64) {
  const auto encode = [](std::string_view text) { return base64(std::as_bytes(std::span(text))); };
  // RFC 4648, section 10.
  EXPECT_EQ(encode(""), "");
  EXPECT_EQ(encode("f"), "Zg==");
  EXPECT_EQ(encode("fo"), "Zm8=");
  EXPECT_EQ(encode("foo"), "Zm9v");
  EXPECT_EQ(encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode("\xFB\xFF\xBF"), "+/+/");
}

TEST(MarkupTest, PlacesAreFilledOnce) {
  EXPECT_EQ(fill("<{{a}}|{{b}}|{{a}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}|2|{{b}}>");
  EXPECT_ERROR(fill("{{a}} {{c}}", {{"a", "1"}}), internal, "c");
  EXPECT_ERROR(fill("{{a", {{"a", "1"}}), internal, "place");
}

}  // namespace
}  // namespace hydrascope::viz::page
