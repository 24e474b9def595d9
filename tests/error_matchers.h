// EXPECT_ERROR(statement, code, text...): the statement throws hydrascope::Error with that code,
// and its message, subject or hint holds every text.
#pragma once

#include "kernels/error.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace hydrascope::testing {

inline ::testing::AssertionResult matches(const Error& error, ErrorCode code,
                                          std::initializer_list<const char*> texts) {
  const std::string all = std::string(error.what()) + " | " + error.about() + " | " + error.hint();
  if (error.code() != code) {
    return ::testing::AssertionFailure()
           << "expected " << name(code) << ", found " << name(error.code()) << ": " << all;
  }
  for (const char* text : texts) {
    if (all.find(text) == std::string::npos)
      return ::testing::AssertionFailure() << "no '" << text << "' in: " << all;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace hydrascope::testing

#define EXPECT_ERROR(statement, code, ...)                                                    \
  try {                                                                                       \
    static_cast<void>(statement);                                                             \
    ADD_FAILURE() << #statement " throws nothing";                                            \
  } catch (const ::hydrascope::Error& error) {                                                \
    EXPECT_TRUE(                                                                              \
        ::hydrascope::testing::matches(error, ::hydrascope::ErrorCode::code, {__VA_ARGS__})); \
  }
