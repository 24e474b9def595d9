#include "app/serve/http_text.h"

#include "kernels/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HttpText, PercentSignsAreDecoded) {
  EXPECT_EQ(decoded_url("/a%20b%2Fc+d", false), "/a b/c+d");
  EXPECT_EQ(decoded_url("a+b%2B", true), "a b+");
  EXPECT_EQ(decoded_url("%", true), "%");
  EXPECT_EQ(decoded_url("%4", true), "%4");
  EXPECT_EQ(decoded_url("%4g%-1% 1", true), "%4g%-1% 1");
  EXPECT_EQ(decoded_url("%00", true), std::string(1, '\0'));
}

TEST(HttpText, QueriesKeepTheirOrder) {
  EXPECT_THAT(
      parse_query("b=1&a=x%26y&b=&c&&=d"),
      ElementsAre(Pair("b", "1"), Pair("a", "x&y"), Pair("b", ""), Pair("c", ""), Pair("", "d")));
  EXPECT_TRUE(parse_query("").empty());
}

TEST(HttpText, BoundariesOfForms) {
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(form_boundary("Multipart/Form-Data; charset=x; BOUNDARY=\"a; b\""), "a; b");
  EXPECT_EQ(form_boundary("image/jpeg"), std::nullopt);
  EXPECT_EQ(form_boundary(""), std::nullopt);
  EXPECT_THROW(form_boundary("multipart/form-data"), Error);
  EXPECT_THROW(form_boundary("multipart/form-data; boundary="), Error);
  EXPECT_THROW(form_boundary("multipart/form-data; boundary=" + std::string(71, 'a')), Error);
}

std::string form_part(const std::string& headers, const std::string& content) {
  return "--b\r\n" + headers + "\r\n" + content + "\r\n";
}

TEST(HttpText, PartsOfForms) {
  const std::string binary("\r\n--not\0\r\n-b", 12);
  const std::string body =
      "a preamble\r\n" +
      form_part("Content-Disposition: form-data; name=\"p\"; filename=\"a \\\"b\\\".jpg\"\r\n",
                binary) +
      form_part("Content-Type: x\r\ncontent-disposition: form-data; name=q\r\n", "") + "--b--\r\n";
  const std::vector<FormPart> parts = parse_form(body, "b", 2);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].name, "p");
  EXPECT_EQ(parts[0].filename, "a \"b\".jpg");
  EXPECT_EQ(parts[0].content, binary);
  EXPECT_EQ(parts[1].name, "q");
  EXPECT_EQ(parts[1].filename, "");
  EXPECT_EQ(parts[1].content, "");
  EXPECT_THROW(parse_form(body, "b", 1), Error);
  EXPECT_TRUE(parse_form("--b--", "b", 1).empty());
}

TEST(HttpText, FormsThatEndAnywhereAreRefused) {
  const std::string body =
      form_part("Content-Disposition: form-data; name=\"p\"\r\n", "content") + "--b--";
  EXPECT_EQ(parse_form(body, "b", 9).size(), 1U);
  for (std::size_t length = 0; length + 2 < body.size(); ++length)
    EXPECT_THROW(parse_form(std::string_view(body).substr(0, length), "b", 9), Error) << length;
  EXPECT_THROW(parse_form(body, "other", 9), Error);
}

}  // namespace
}  // namespace hydrascope::app
