// Members of a JSON object from a foreign file, read with their types and limits checked. Errors
// name the file and the key.
#pragma once

#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {

/// An object inside a document that outlives it. A null member counts as absent.
class JsonFields {
 public:
  /// Errors name the file `subject`. `path` stands in front of keys: "pretrained_cfg.".
  JsonFields(const nlohmann::json& object, std::string subject, std::string path = {})
      : object_(&object), subject_(std::move(subject)), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& members() const noexcept { return *object_; }
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// nullptr when absent.
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;

  // Nothing if absent; Error(invalid_argument) for another type or a value out of bounds.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, std::int64_t least,
                                                    std::int64_t most) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<JsonFields> object(std::string_view key) const;
  /// One number stands for `count` equal ones where `one_for_all`.
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key, std::size_t count,
                                                           bool one_for_all = false) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key,
                                                                  std::size_t count,
                                                                  std::int64_t least,
                                                                  std::int64_t most,
                                                                  bool one_for_all = false) const;

  /// Throws Error(invalid_argument): "KEY: expected ..., found ...".
  [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;
  /// Throws Error(invalid_argument): "KEY: ...".
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;
  [[nodiscard]] const std::string& subject() const noexcept { return subject_; }

 private:
  const nlohmann::json* object_;
  std::string subject_;
  std::string path_;
};

/// The whole number `value`. Throws nlohmann's type_error for anything else: `get` would take a
/// fraction and a number that needs more than 64 bits.
std::int64_t whole_number(const nlohmann::json& value);

/// The message of nlohmann's exception without its "[json.exception.type_error.302]".
std::string json_reason(const nlohmann::json::exception& error);

/// `read()`; Error(decode_failed) where what it reads is no JSON, lacks a member or has another kind of value.
template <class Read>
std::invoke_result_t<Read> with_json_errors(const std::string& subject, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::decode_failed, json_reason(error), subject);
  }
}

/// A JSON text whose outermost value is an object. Throws Error(decode_failed) for bad UTF-8, bad
/// JSON, keys that come twice and nesting without end.
nlohmann::json parse_json_object(std::string_view text, const std::string& subject);

/// The same from a file of at most 16 MiB; nothing without the file. Throws Error(not_found) for a
/// link that leads nowhere, Error(unreadable) for a file that cannot be read.
std::optional<nlohmann::json> load_json_object(const std::filesystem::path& file);

}  // namespace hydrascope::checkpoint
