// Pieces of JSON as text. Records are put together from them instead of from a document tree
// because of their numbers: a printer of doubles gives every digit (0.9312000274658203) or an
// exponent.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// `text` as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// `value` with exactly `decimals` places, never an exponent; "nan", "inf", "-inf".
std::string fixed(double value, int decimals);
/// `value` rounded to `decimals` places, without exponent and trailing zeros but with a decimal
/// point ("0.9312", "12.0"); "nan", "inf", "-inf".
std::string decimal(double value, int decimals);
/// `decimal` with as many places as `digits` significant digits need: at least three, at most
/// twelve.
std::string significant(double value, int digits);
/// A number that `decimal` or `significant` made, or null if it is not finite.
std::string json_number(std::string number);
std::string json_array(std::span<const std::int64_t> values);

/// One object, its members in the order in which they are added.
class JsonObject {
 public:
  /// `json` is a complete JSON value.
  JsonObject& add(std::string_view key, std::string_view json);
  JsonObject& add(std::string_view key, std::int64_t value);
  /// A file's name as a string. Where it is not UTF-8, which JSON cannot hold, also its bytes,
  /// percent-encoded (RFC 3986), as KEY_bytes: two such names stay apart and can be had back.
  JsonObject& add_path(std::string_view key, std::string_view path);
  /// `{"a":1,"b":[2]}`, or one member per line where `indent` is positive.
  [[nodiscard]] std::string text(int indent = 0) const;

 private:
  std::vector<std::string> members_;
};

/// {"hydra.scale":"linear"}
std::string json_object(const std::map<std::string, std::string>& values);

}  // namespace hydrascope::app
