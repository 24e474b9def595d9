// Values of results, as JSON holds them: a string may hold any bytes until it is written.
#pragma once

#include "app/run/terminal_text.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace hydrascope::app {

/// Members keep the order in which they were added.
using OrderedJson = nlohmann::ordered_json;

/// `value` rounded to `decimals` places, without exponent and trailing zeros but with a decimal
/// point ("0.9312", "12.0"); "nan", "inf", "-inf".
std::string decimal(double value, int decimals);
/// `decimal` with as many places as `digits` significant digits need: at least three, at most
/// twelve.
std::string significant(double value, int digits);

/// The number that `decimal` or `significant` made: one without the noise of its last digits
/// (0.9312000274658203).
double rounded(const std::string& number);
/// `rounded` of six significant digits, which most results have.
double rounded(double value);

/// A file's name as a string. A name that is not UTF-8, which JSON cannot hold, also has its bytes,
/// percent-encoded (RFC 3986), as KEY_bytes: two such names stay apart and can be had back.
void add_path(OrderedJson& object, const std::string& key, const std::string& path);

/// `{"a":1,"b":[2]}`, or one member per line where `indent` is positive. Bytes that are not UTF-8
/// become U+FFFD; numbers have no exponent; one that is not finite is null.
std::string json_text(const OrderedJson& value, int indent = 0);

}  // namespace hydrascope::app
