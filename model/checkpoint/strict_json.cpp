#include "model/checkpoint/strict_json.h"

#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

using Json = nlohmann::json;
using Kind = JsonValue::Kind;

/// Turns the parser's events into values with a path and applies the limits.
class EventHandler final : public nlohmann::json_sax<Json> {
 public:
  EventHandler(std::string_view text, std::string_view document, const std::string& subject,
               JsonVisitor& visitor)
      : text_(text), document_(document), subject_(subject), visitor_(visitor) {}

  bool null() override { return scalar({}); }
  bool boolean(bool) override { return scalar({.kind = Kind::boolean, .text = {}}); }
  bool number_unsigned(std::uint64_t number) override {
    return scalar({.kind = Kind::integer, .integer = number, .text = {}});
  }
  bool number_integer(std::int64_t number) override {
    // Only what begins with a minus sign arrives here.
    return scalar({.kind = Kind::number, .text = number == 0 ? "-0" : std::to_string(number)});
  }
  bool number_float(double, const std::string& text) override {
    return scalar({.kind = Kind::number, .text = text});
  }
  bool string(std::string& text) override {
    return scalar({.kind = Kind::string, .text = std::move(text)});
  }
  bool binary(Json::binary_t&) override { fail("binary values are not JSON"); }

  bool start_object(std::size_t) override { return start(Kind::object); }
  bool start_array(std::size_t) override { return start(Kind::array); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(std::string& key) override {
    std::unordered_set<std::string>& seen = keys_.back();
    if (seen.size() == kMaxJsonKeys) {
      fail("more than " + std::to_string(kMaxJsonKeys) + " keys in one object" + place());
    }
    if (!seen.insert(key).second) fail("duplicate key " + quote(key) + place());
    path_.back() = std::move(key);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    // The parser's own message quotes the last token, which may be as long as the file.
    constexpr std::size_t kExcerpt = 24;
    const std::size_t at = std::min(position > 0 ? position - 1 : 0, text_.size());
    const std::string found = at == text_.size() ? "its end" : quote(text_.substr(at, kExcerpt));
    fail("not valid JSON: unexpected at byte " + std::to_string(at) + ": " + found);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::decode_failed, "the " + std::string(document_) + ": " + what, subject_);
  }

  /// " in "a" "b"" for the object in which a key was just read.
  [[nodiscard]] std::string place() const {
    std::string text;
    for (std::size_t i = 0; i + 1 < path_.size(); ++i) text += " " + quote(path_[i]);
    return text.empty() ? text : " in" + text;
  }

  bool scalar(const JsonValue& value) {
    visitor_.value(path_, value);
    return true;
  }

  bool start(Kind kind) {
    if (path_.size() == kMaxJsonDepth) {
      fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    visitor_.value(path_, {.kind = kind, .text = {}});
    path_.emplace_back();
    keys_.emplace_back();
    return true;
  }

  bool end() {
    path_.pop_back();
    keys_.pop_back();
    visitor_.end(path_);
    return true;
  }

  std::string_view text_;
  std::string_view document_;
  const std::string& subject_;
  JsonVisitor& visitor_;
  std::vector<std::string> path_;
  std::vector<std::unordered_set<std::string>> keys_;  ///< of each open object; empty for arrays
};

/// Length of a multi-byte character by its first byte and what its second byte may be; length 0 for
/// bytes that begin none (Unicode 15.0, table 3-7: no overlong forms, no surrogates).
struct Utf8Lead {
  std::size_t length;
  unsigned char lowest;
  unsigned char highest;
};

Utf8Lead utf8_lead(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

void visit_json(std::string_view text, std::string_view document, const std::string& subject,
                JsonVisitor& visitor) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::decode_failed, "the " + std::string(document) + ": " + what, subject);
  };
  if (const std::size_t bad = find_bad_utf8(text); bad < text.size()) {
    fail("not valid UTF-8 at byte " + std::to_string(bad));
  }
  // The parser takes a zero byte for the end of the text and would not see what follows it.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail("not valid JSON: a zero byte at byte " + std::to_string(zero));
  }
  EventHandler handler(text, document, subject, visitor);
  Json::sax_parse(text.begin(), text.end(), &handler);
}

std::string describe(const JsonValue& value) {
  switch (value.kind) {
    case Kind::null: return "null";
    case Kind::boolean: return "true or false";
    case Kind::integer: return "the number " + std::to_string(value.integer);
    case Kind::number: {
      constexpr std::size_t kLongest = 40;
      const bool cut = value.text.size() > kLongest;
      return "the number " + value.text.substr(0, kLongest) + (cut ? "..." : "");
    }
    case Kind::string: return "the string " + quote(value.text);
    case Kind::array: return "an array";
    case Kind::object: return "an object";
  }
  return "";
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  if (text.size() <= kLongest) return json_string(text);
  // A character that the cut would split is left out as a whole.
  const std::string_view head = text.substr(0, kLongest);
  return json_string(head.substr(0, std::max(find_bad_utf8(head), kLongest - 3))) + "...";
}

std::size_t find_bad_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const auto [length, lowest, highest] = utf8_lead(first);
    if (length == 0 || length > text.size() - at) return at;
    for (std::size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text[at + i]);
      if (byte < (i == 1 ? lowest : 0x80) || byte > (i == 1 ? highest : 0xBF)) return at;
    }
    at += length;
  }
  return at;
}

}  // namespace hydrascope::checkpoint
