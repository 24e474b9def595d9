#include "app/json_text.h"

#include "model/checkpoint/strict_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace hydrascope::app {
namespace {

std::string percent_encoded(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kKept =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string text;
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (kKept.find(letter) != std::string_view::npos)
      text += letter;
    else
      text += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
  }
  return text;
}

}  // namespace

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string fixed(double value, int decimals) {
  // The largest double has 309 digits before its point.
  std::array<char, 352> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::fixed, std::clamp(decimals, 0, 30));
  return {buffer.data(), written.ptr};
}

std::string decimal(double value, int decimals) {
  std::string text = fixed(value, std::max(decimals, 1));
  if (!std::isfinite(value)) return text;
  const std::size_t point = text.find('.');
  text.resize(std::max(text.find_last_not_of('0'), point + 1) + 1);
  return text == "-0.0" ? "0.0" : text;
}

std::string significant(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return decimal(value, 1);
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return decimal(value, std::clamp(digits - 1 - exponent, 3, 12));
}

std::string json_number(std::string number) {
  const bool finite = number.find_first_not_of("-.0123456789") == std::string::npos;
  return finite ? std::move(number) : "null";
}

std::string json_array(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ',';
    text += std::to_string(value);
  }
  return text + ']';
}

JsonObject& JsonObject::add(std::string_view key, std::string_view json) {
  members_.push_back(json_string(key) + ':' + std::string(json));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return add(key, std::to_string(value));
}

JsonObject& JsonObject::add_path(std::string_view key, std::string_view path) {
  add(key, json_string(path));
  if (checkpoint::find_bad_utf8(path) < path.size())
    add(std::string(key) + "_bytes", json_string(percent_encoded(path)));
  return *this;
}

std::string JsonObject::text(int indent) const {
  const std::string line_break =
      indent > 0 ? '\n' + std::string(static_cast<std::size_t>(indent), ' ') : "";
  std::string text = "{";
  for (const std::string& member : members_) {
    if (text.size() > 1) text += ',';
    text += line_break + member;
  }
  return text + (indent > 0 && !members_.empty() ? "\n}" : "}");
}

std::string json_object(const std::map<std::string, std::string>& values) {
  JsonObject object;
  for (const auto& [key, value] : values) object.add(key, json_string(value));
  return object.text();
}

}  // namespace hydrascope::app
