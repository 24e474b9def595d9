// Cases as data: a file of JSON objects, one a line, between which `//` begins a line of words. A row `{"base": {..}}` is
// merged (RFC 7396) below every row behind it, up to the next. A row's `error` is a code and words of the message, subject
// or hint; without it nothing may be thrown.
#pragma once

#include "kernels/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::testing {

using Json = nlohmann::json;

/// The rows of tests/`file`; each has its line's number as `line`.
inline std::vector<Json> read_cases(const std::string& file) {
  std::ifstream stream(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests" / file);
  EXPECT_TRUE(stream) << file;
  std::vector<Json> rows;
  Json base = Json::object();
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line.starts_with("//")) continue;
    const Json row = Json::parse(line);
    if (row.contains("base")) {
      base = row["base"];
      continue;
    }
    rows.push_back(base.empty() ? row : base);
    if (!base.empty()) rows.back().merge_patch(row);
    // A merge would leave out the values that have to be absent.
    if (row.contains("facts") && !base.contains("facts")) rows.back()["facts"] = row["facts"];
    rows.back()["line"] =
        std::filesystem::path(file).filename().string() + ":" + std::to_string(number);
  }
  EXPECT_FALSE(rows.empty()) << file;
  return rows;
}

/// `action` throws what the row says, or nothing.
template <class Action>
void expect_case(const Json& row, Action&& action) {
  SCOPED_TRACE(row.value("line", ""));
  try {
    action();
    EXPECT_FALSE(row.contains("error")) << "nothing is thrown, expected " << row["error"];
  } catch (const Error& error) {
    const std::string all =
        std::string(error.what()) + " | " + error.about() + " | " + error.hint();
    const Json expected = row.value("error", Json::array({"no error"}));
    EXPECT_EQ(name(error.code()), expected.at(0).get<std::string>()) << all;
    for (std::size_t i = 1; i < expected.size(); ++i)
      EXPECT_NE(all.find(expected[i].get<std::string>()), std::string::npos)
          << "no " << expected[i] << " in: " << all;
  }
}

/// The members of the object `row[key]`; none without one. A copy, because a loop over `row.value(..).items()` would outlive
/// what it runs through.
inline std::map<std::string, Json> members(const Json& row, const char* key) {
  return row.value(key, Json::object()).get<std::map<std::string, Json>>();
}

/// `found` has all values of `expected`, in which null stands for a value that is absent.
inline void expect_facts(const Json& found, const Json& expected) {
  Json both = found;
  both.merge_patch(expected);
  EXPECT_EQ(both, found);
}

/// The bytes that a text of characters up to U+00FF stands for.
inline std::string bytes_in(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    bytes += lead < 0x80 ? text[i] : static_cast<char>(lead << 6 | (text[++i] & 0x3F));
  }
  return bytes;
}

}  // namespace hydrascope::testing
