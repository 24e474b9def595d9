#include "app/http/http_text.h"

#include "kernels/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

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

TEST(HttpText, TargetsMayNameTheirHost) {
  const auto parts = [](std::string_view text) {
    const Target target = split_target(text);
    return std::vector{std::string(target.authority.value_or("none")), std::string(target.path),
                       std::string(target.query)};
  };
  EXPECT_THAT(parts("/a/b?c=1?2"), ElementsAre("none", "/a/b", "c=1?2"));
  EXPECT_THAT(parts("HTTP://localhost:80/a?b"), ElementsAre("localhost:80", "/a", "b"));
  EXPECT_THAT(parts("https://[::1]?b"), ElementsAre("[::1]", "/", "b"));
  EXPECT_THAT(parts("http://"), ElementsAre("", "/", ""));
  EXPECT_THAT(parts("/http://a"), ElementsAre("none", "/http://a", ""));
  EXPECT_THAT(parts(""), ElementsAre("none", "", ""));
}

TEST(HttpText, NamesOfThisMachine) {
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.2:8080",
                           "127.255.1.1", "[::1]", "[::1]:80", "[0:0::1]", "mine.example:80"})
    EXPECT_TRUE(names_loopback(host, "Mine.example")) << host;
  for (const char* host : {"", ":80", "[]", "example.org", "localhost.example.org", "128.0.0.1",
                           "127.0.0.1.example.org:80", "127.1", "[::2]", "[::]", "[127.0.0.1",
                           "user@localhost", "10.0.0.1", "0.0.0.0"})
    EXPECT_FALSE(names_loopback(host, "Mine.example")) << host;
  EXPECT_TRUE(names_loopback("[fd00::1]:80", "fd00::1"));
}

TEST(HttpText, WhatIsAcceptedByOrder) {
  constexpr std::array<std::string_view, 3> kOffered{"application/json", "application/x-npy",
                                                     "image/png"};
  const auto accepted = [&](std::string_view accept) { return accepted_type(accept, kOffered); };
  EXPECT_EQ(accepted(""), "application/json");
  EXPECT_EQ(accepted("*/*"), "application/json");
  EXPECT_EQ(accepted("image/png"), "image/png");
  EXPECT_EQ(accepted("IMAGE/PNG ; Q=0.5"), "image/png");
  EXPECT_EQ(accepted("application/json, image/png;q=0.1"), "application/json");
  EXPECT_EQ(accepted("image/png, application/json"), "image/png");
  EXPECT_EQ(accepted("image/avif,image/*,*/*;q=0.8"), "image/png");
  EXPECT_EQ(accepted("application/x-npy;q=1.0, */*;q=0.9"), "application/x-npy");
  EXPECT_EQ(accepted("text/html"), "application/json");
  EXPECT_EQ(accepted(",;,q=,image/png;q=x"), "image/png");
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
  EXPECT_TRUE(parts[0].is_file);
  EXPECT_TRUE(parts[1].is_file) << "it has a type";
  EXPECT_THROW(parse_form(body, "b", 1), Error);
  EXPECT_TRUE(parse_form("--b--", "b", 1).empty());
}

TEST(HttpText, FieldsOfFormsAreNoFiles) {
  const std::string field = "Content-Disposition: form-data; name=\"topk\"";
  const std::string body = form_part(field + "\r\n", "2") +
                           form_part(field + "\r\nContent-Type: text/plain; charset=x\r\n", "2") +
                           form_part(field + "; filename=\"\"\r\n", "2") + "--b--";
  const std::vector<FormPart> parts = parse_form(body, "b", 3);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_FALSE(parts[0].is_file);
  EXPECT_FALSE(parts[1].is_file);
  EXPECT_TRUE(parts[2].is_file);
}

TEST(HttpText, FilesOfFormsHaveTheirNameInAnyForm) {
  const auto part = [](const std::string& parameters) {
    const std::string body =
        form_part("content-DISPOSITION:form-data" + parameters + "\r\n", "x") + "--b--";
    FormPart found = parse_form(body, "b", 1).at(0);
    EXPECT_EQ(found.type, "");
    found.content = {};
    return found;
  };
  for (const char* parameters :
       {"; name=p; filename*=utf-8''x%20y.jpg", ";filename*=UTF-8'en'x%20y.jpg;name=\"p\"",
        "; FileName*=iso-8859-1''x%20y.jpg; NAME=p", "; filename=\"x y.jpg\"; name=p",
        "; name=p; filename=\"other.jpg\"; filename*=utf-8''x%20y.jpg",
        "; name = p ;filename= \"x y.jpg\"", "; attachment; name=p; filename=x y.jpg",
        "; filename*=x%20y.jpg; name=p"}) {
    const FormPart found = part(parameters);
    EXPECT_TRUE(found.is_file) << parameters;
    EXPECT_EQ(found.filename, "x y.jpg") << parameters;
    EXPECT_EQ(found.name, "p") << parameters;
  }
  EXPECT_EQ(part("; name=p; filename*=iso-8859-1''%FCber.jpg").filename,
            "\xC3\xBC"
            "ber.jpg");
  EXPECT_EQ(part("; name=p; filename*=utf-8''%C3%BCber.jpg").filename,
            "\xC3\xBC"
            "ber.jpg");
  EXPECT_TRUE(part("; name=p; filename*=").is_file);
  EXPECT_FALSE(part("; name=\"filename*=\"").is_file) << "within quotes";
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
