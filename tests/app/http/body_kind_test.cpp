#include "app/http/http_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;

std::string complaint(const std::string& body, const std::string& type,
                      ErrorCode code = ErrorCode::unsupported_format) {
  return complaint_about(body, type, code).value_or("");
}

TEST(BodyKind, SendersWordsCount) {
  EXPECT_THAT(complaint("{}", "application/json"),
              HasSubstr("the body is JSON (application/json); "));
  EXPECT_THAT(complaint("x", "application/problem+json"), HasSubstr("JSON"));
  EXPECT_THAT(complaint("x", "text/csv"), HasSubstr("the body is text/csv; "));
  EXPECT_THAT(complaint("x", "video/webm"), HasSubstr("the body is video/webm; "));
  for (const char* type : {"application/json", "text/csv"})
    EXPECT_THAT(complaint("x", type), HasSubstr("curl --data-binary @photo.jpg")) << type;
}

TEST(BodyKind, FirstCharactersCount) {
  EXPECT_THAT(complaint(" \n[1]", ""), HasSubstr("JSON"));
  EXPECT_THAT(complaint("Data:image/png;base64,iVBORw0KGgo=", ""), HasSubstr("a data: URL"));
  EXPECT_THAT(complaint("/9j/4AAQSkZJRgABAQ==", ""), HasSubstr("base64"));
  EXPECT_EQ(complaint("/9j/ is a path", ""), "");
  EXPECT_THAT(complaint("<HTML>", ""), HasSubstr("HTML"));
  EXPECT_THAT(complaint(std::string("\0\0\0\x1C"
                                    "ftypmp42",
                                    12),
                        ""),
              HasSubstr("a video"));
  EXPECT_EQ(complaint(std::string("\0\0\0\x1C"
                                  "ftypheic",
                                  12),
                      ""),
            "")
      << "the decoder names it";
  EXPECT_EQ(complaint("whatever", "application/octet-stream"), "");
}

TEST(BodyKind, WhatCurlTookAwayIsNoBrokenPicture) {
  const std::string form = "application/x-www-form-urlencoded";
  const std::string stripped = "\xFF\xD8" + std::string(2000, 'x');
  const auto broken = ErrorCode::decode_failed;
  EXPECT_THAT(complaint(stripped, form, broken), HasSubstr("--data-binary"));
  EXPECT_EQ(complaint(stripped + '\n', form, broken), "") << "--data-binary sends this type, too";
  EXPECT_EQ(complaint(stripped.substr(0, 500), form, broken), "");
  EXPECT_EQ(complaint(stripped, "image/jpeg", broken), "");
  EXPECT_THAT(complaint("image=x", form), HasSubstr("--data-binary"));
  EXPECT_EQ(complaint(stripped, form, ErrorCode::too_large), "");
}

TEST(BodyKind, EmptyBodies) {
  EXPECT_THAT(complaint("", "", ErrorCode::empty), HasSubstr("the body is empty"));
}

}  // namespace
}  // namespace hydrascope::app
