#include "model/checkpoint/formats/json_fields.h"

#include "model/checkpoint/formats/mapped_file.h"
#include "model/checkpoint/formats/strict_json.h"

#include <cmath>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using Json = nlohmann::json;

/// Enough for the names of the 21,841 classes of ImageNet-21k.
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

std::string between(std::int64_t least, std::int64_t most) {
  return "an integer from " + std::to_string(least) + " to " + std::to_string(most);
}

std::optional<std::int64_t> integer_of(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number < least || number > most ? std::nullopt : std::optional(number);
}

std::optional<double> number_of(const Json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

/// All `count` numbers of an array, or one number for all of them; nothing otherwise.
template <class Number, class Read>
std::optional<std::vector<Number>> list_of(const Json& value, std::size_t count, bool one_for_all,
                                           const Read& read) {
  if (one_for_all && value.is_number()) {
    const std::optional<Number> number = read(value);
    return number ? std::optional(std::vector<Number>(count, *number)) : std::nullopt;
  }
  if (!value.is_array() || value.size() != count) return std::nullopt;
  std::vector<Number> list;
  for (const Json& item : value) {
    const std::optional<Number> number = read(item);
    if (!number) return std::nullopt;
    list.push_back(*number);
  }
  return list;
}

}  // namespace

std::int64_t whole_number(const Json& value) {
  constexpr int kTypeError = 302;  // nlohmann's own number for a type that does not fit
  const auto number = integer_of(value, std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max());
  if (!number)
    throw Json::type_error::create(kTypeError, "expected a whole number, found " + describe(value),
                                   &value);
  return *number;
}

std::string json_reason(const Json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

const Json* JsonFields::find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::fail(std::string_view key, const std::string& what) const {
  throw Error(ErrorCode::invalid_argument, path_ + std::string(key) + ": " + what, subject_);
}

void JsonFields::refuse(std::string_view key, const std::string& expected) const {
  const Json* value = find(key);
  constexpr std::size_t kLongest = 60;
  std::string found =
      value == nullptr ? "nothing" : value->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (found.size() > kLongest)
    found = found.substr(0, find_bad_utf8(std::string_view(found).substr(0, kLongest))) + "...";
  fail(key, "expected " + expected + ", found " + found);
}

std::optional<std::int64_t> JsonFields::integer(std::string_view key, std::int64_t least,
                                                std::int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = integer_of(*value, least, most);
  if (!number) refuse(key, between(least, most));
  return number;
}

std::optional<double> JsonFields::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = number_of(*value);
  if (!number) refuse(key, "a number");
  return number;
}

std::optional<bool> JsonFields::flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::optional<JsonFields> JsonFields::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object");
  return JsonFields(*value, subject_, path_ + std::string(key) + ".");
}

std::optional<std::vector<double>> JsonFields::numbers(std::string_view key, std::size_t count,
                                                       bool one_for_all) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto list = list_of<double>(*value, count, one_for_all, number_of);
  if (!list) refuse(key, (one_for_all ? "a number or " : "") + std::to_string(count) + " numbers");
  return list;
}

std::optional<std::vector<std::int64_t>> JsonFields::integers(std::string_view key,
                                                              std::size_t count, std::int64_t least,
                                                              std::int64_t most,
                                                              bool one_for_all) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto list = list_of<std::int64_t>(
      *value, count, one_for_all, [&](const Json& item) { return integer_of(item, least, most); });
  if (!list) {
    refuse(key, (one_for_all ? "one or " : "") + std::to_string(count) + " integers from " +
                    std::to_string(least) + " to " + std::to_string(most));
  }
  return list;
}

Json parse_json_object(std::string_view text, const std::string& subject) {
  Json json = parse_json(text, "configuration", subject);
  if (!json.is_object()) {
    throw Error(ErrorCode::decode_failed, "expected a JSON object", subject);
  }
  return json;
}

std::optional<Json> load_json_object(const std::filesystem::path& file) {
  // A link that leads nowhere stands for a file that somebody expects.
  std::error_code error;
  const auto status = std::filesystem::symlink_status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
  if (std::filesystem::is_symlink(status) && !std::filesystem::exists(file, error)) {
    throw Error(ErrorCode::not_found,
                error ? "is a link that cannot be followed: " + error.message()
                      : "is a link to a file that does not exist: " +
                            std::filesystem::read_symlink(file, error).string(),
                file.string());
  }
  const MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.empty())
    throw Error(ErrorCode::decode_failed, "the file is empty, expected a JSON object",
                file.string());
  if (bytes.size() > kMaxFileBytes) {
    throw Error(ErrorCode::too_large, "a configuration of more than 16 MiB", file.string());
  }
  return parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                           file.string());
}

}  // namespace hydrascope::checkpoint
