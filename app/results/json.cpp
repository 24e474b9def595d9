#include "app/results/json.h"

#include "kernels/number_text.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace hydrascope::app {
namespace {

// The largest double has 309 digits before its point.
using NumberBuffer = std::array<char, 352>;

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

/// The fewest digits that are this number.
std::string shortest(double value) {
  if (!std::isfinite(value)) return "null";
  NumberBuffer buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  const std::string text(buffer.data(), written.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

}  // namespace

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

double rounded(const std::string& number) {
  return parse_number<double>(number).value_or(std::numeric_limits<double>::quiet_NaN());
}

double rounded(double value) {
  constexpr int kDigits = 6;
  return rounded(significant(value, kDigits));
}

void add_path(OrderedJson& object, const std::string& key, const std::string& path) {
  object[key] = path;
  if (checkpoint::find_bad_utf8(path) < path.size()) object[key + "_bytes"] = percent_encoded(path);
}

std::string json_text(const OrderedJson& value, int indent) {
  if (value.is_number_float()) return shortest(value.get<double>());
  if (!value.is_structured()) return printable_json(value);
  const bool is_object = value.is_object();
  const std::string line_break =
      indent > 0 ? '\n' + std::string(static_cast<std::size_t>(indent), ' ') : "";
  std::string text = is_object ? "{" : "[";
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += ',';
    text += line_break + (is_object ? json_text(key) + ':' : "") + json_text(member);
  }
  return text + (indent > 0 && !value.empty() ? "\n" : "") + (is_object ? '}' : ']');
}

}  // namespace hydrascope::app
