#include "model/checkpoint/formats/strict_json.h"

#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

using Json = nlohmann::json;
/// Builds the tree out of the parser's events and applies the limits while it grows.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, std::string_view document, const std::string& subject)
      : text_(text), document_(document), subject_(subject) {}

  Json root;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::decode_failed, "the " + std::string(document_) + ": " + what, subject_);
  }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(std::int64_t number) override { return add(number) != nullptr; }
  bool number_unsigned(std::uint64_t number) override { return add(number) != nullptr; }
  bool number_float(double number, const std::string&) override { return add(number) != nullptr; }
  bool string(std::string& text) override { return add(std::move(text)) != nullptr; }
  bool binary(Json::binary_t&) override { fail("binary values are not JSON"); }

  bool start_object(std::size_t) override { return start(Json::object()); }
  bool start_array(std::size_t) override { return start(Json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(std::string& key) override {
    Json& object = *open_.back().container;
    if (object.size() == kMaxJsonKeys) {
      fail("more than " + std::to_string(kMaxJsonKeys) + " keys in one object" + place());
    }
    const auto [member, is_new] = object.emplace(key, nullptr);
    if (!is_new) fail("duplicate key " + quote(key) + place());
    open_.back().member = &*member;
    open_.back().key = std::move(key);
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
  struct Open {
    Json* container;
    Json* member = nullptr;  ///< in an object: the place of the next value
    std::string key;         ///< the key of that value
  };

  /// " in "a" "b"" for the object in which a key was just read.
  [[nodiscard]] std::string place() const {
    std::string text;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) text += " " + quote(open_[i].key);
    return text.empty() ? text : " in" + text;
  }

  Json* add(Json value) {
    if (++count_ > kMaxJsonValues) {
      fail("more than " + std::to_string(kMaxJsonValues) + " values");
    }
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back().container->is_array()) {
      open_.back().container->push_back(std::move(value));
      return &open_.back().container->back();
    }
    return &(*open_.back().member = std::move(value));
  }

  bool start(Json container) {
    if (open_.size() == kMaxJsonDepth) {
      fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    open_.push_back({.container = add(std::move(container)), .key = {}});
    return true;
  }

  bool end() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view document_;
  const std::string& subject_;
  std::vector<Open> open_;
  std::size_t count_ = 0;
};

/// Length of a multi-byte character by its first byte, and the range of its second byte; length 0
/// for bytes that begin none (Unicode 15.0, table 3-7: no overlong forms, no surrogates).
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

Json parse_json(std::string_view text, std::string_view document, const std::string& subject) {
  TreeBuilder builder(text, document, subject);
  if (const std::size_t bad = find_bad_utf8(text); bad < text.size()) {
    builder.fail("not valid UTF-8 at byte " + std::to_string(bad));
  }
  // The parser takes a zero byte for the end of the text and would not see what follows it.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    builder.fail("not valid JSON: a zero byte at byte " + std::to_string(zero));
  }
  Json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.root);
}

std::string describe(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "true or false";
  if (value.is_string()) return "the string " + quote(value.get_ref<const std::string&>());
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  // A number with a minus sign is signed, even zero.
  const bool minus_zero = value == 0 && value.is_number_integer() && !value.is_number_unsigned();
  return "the number " + (minus_zero ? "-0" : value.dump());
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
