#include "model/checkpoint/torch_metadata.h"

#include "kernels/shortest_number.h"
#include "model/checkpoint/strict_json.h"

#include <optional>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {
namespace {

constexpr std::size_t kMaxEntries = 1024;
constexpr std::size_t kMaxText = 4096;
constexpr std::string_view kArguments = "args";

std::optional<std::string> plain_text(std::string_view text) {
  if (text.size() > kMaxText || find_bad_utf8(text) != text.size()) return std::nullopt;
  return std::string(text);
}

std::optional<std::string> value_text(const pickle::Value& value) {
  if (const auto* text = std::get_if<pickle::Text>(&value)) return plain_text(text->text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return std::nullopt;
  return shortest_number(*number);
}

void add(const pickle::Dict& dict, const std::string& prefix, Metadata& metadata) {
  for (const auto& [key, value] : dict.items) {
    if (metadata.size() >= kMaxEntries) return;
    const auto* name = std::get_if<pickle::Text>(&key);
    const auto plain_name = name == nullptr ? std::nullopt : plain_text(name->text);
    const auto text = value_text(value);
    if (plain_name && text) metadata.try_emplace(prefix + *plain_name, *text);
  }
}

}  // namespace

Metadata read_metadata(const pickle::Dict& root) {
  Metadata metadata;
  add(root, "", metadata);
  if (const pickle::Value* arguments = find(root, kArguments)) {
    const pickle::Dict* fields = nullptr;
    if (const auto* dict = std::get_if<pickle::Dict*>(arguments)) fields = *dict;
    if (const auto* name_space = std::get_if<pickle::Namespace*>(arguments)) {
      fields = (*name_space)->fields;
    }
    if (fields != nullptr) add(*fields, std::string(kArguments) + '.', metadata);
  }
  return metadata;
}

}  // namespace hydrascope::checkpoint
