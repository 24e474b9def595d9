// Configuration files: a JSON object whose keys are option names and whose values are strings,
// numbers, true/false or arrays of these. --dump-config writes one, --config reads it.
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/results/json.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "kernels/input_file.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/strict_json.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

bool belongs_to_the_command_line(const Option& option) {
  return option.field.is_of(typeid(GeneralRequest));
}

std::string_view expected(const Option& option) {
  switch (option.kind) {
    case ValueKind::flag: return "true or false";
    case ValueKind::text: return "a string";
    case ValueKind::integer: return "an integer";
    case ValueKind::number: return "a number";
  }
  return "";
}

std::string found(const OrderedJson& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "true or false";
    default: return value.dump();
  }
}

/// In bytes, from files and pipes alike (`--config <(...)`).
std::string read_bounded(const std::string& file) {
  InputFile stream(file);
  if (!stream) throw UsageError("cannot read the configuration file", file);
  std::string text = stream.text(kMaxConfigBytes);
  if (text.size() > kMaxConfigBytes) {
    throw UsageError("a configuration file has at most 1 MiB", file);
  }
  return text;
}

OrderedJson parse_object(const std::string& text, const std::string& file) {
  std::set<std::string> keys;
  // The parser would let the second of two equal keys win without a word.
  const auto refuse_twins = [&](int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
    if (event == OrderedJson::parse_event_t::key && depth == 1 &&
        !keys.insert(value.get<std::string>()).second) {
      throw UsageError("'" + value.get<std::string>() + "' is given twice", file);
    }
    return true;
  };
  OrderedJson object;
  try {
    object = OrderedJson::parse(text, refuse_twins);
  } catch (const OrderedJson::exception& error) {
    throw UsageError("not valid JSON: " + checkpoint::json_reason(error), file);
  }
  if (!object.is_object()) {
    throw UsageError("expected a JSON object, found " + found(object), file);
  }
  return object;
}

std::string to_word(const Option& option, const OrderedJson& value, const std::string& subject) {
  // A file may hold a key's value as `--set` takes it.
  if (!option.key.empty() && value.is_string()) return value.get<std::string>();
  const bool is_switch = option.choices == std::vector<std::string>{"on", "off"};
  if (is_switch && value.is_boolean()) return value.get<bool>() ? "on" : "off";
  const bool fits = [&] {
    switch (option.kind) {
      case ValueKind::flag: return value.is_boolean();
      case ValueKind::text: return value.is_string() || value.is_number();  // "img-size": 224
      case ValueKind::integer: return value.is_number_integer();
      case ValueKind::number: return value.is_number();
    }
    return false;
  }();
  if (!fits) {
    throw UsageError("expected " + std::string(expected(option)) + ", found " + found(value),
                     subject);
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Setting read_setting(const OptionMatch& match, const std::string& key, const OrderedJson& value,
                     const std::string& file) {
  const Option& option = *match.option;
  const std::string subject = file + ": " + key;
  Setting setting{match.option, with_dashes(key), {}};
  if (const std::string implied(match.implied()); !implied.empty()) {
    if (!value.is_boolean() || !value.get<bool>())
      throw UsageError("expected true, found " + value.dump(), subject,
                       "it stands for \"" + option.name + "\": \"" + implied + "\"");
    setting.words = {implied};
  } else if (value.is_array() && option.may_hold_several()) {
    for (const OrderedJson& item : value) setting.words.push_back(to_word(option, item, subject));
  } else {
    setting.words = split_values(option, to_word(option, value, subject));
  }
  setting.words = check_values(option, std::move(setting.words), subject);
  return setting;
}

Json to_json(const Option& option, const std::string& word) {
  switch (option.kind) {
    case ValueKind::flag: return word == "true";
    case ValueKind::text:
      if (checkpoint::find_bad_utf8(word) < word.size())
        throw UsageError("the value is not UTF-8, which JSON cannot hold",
                         option_named(option.name));
      return word;
    case ValueKind::integer: return to_integer(word, option_named(option.name));
    case ValueKind::number: return to_number(word, option_named(option.name));
  }
  return {};
}

}  // namespace

std::vector<Setting> read_config(const CommandSpec& command, const std::string& file) {
  const OrderedJson object = parse_object(read_bounded(file), file);
  std::vector<Setting> settings;
  std::set<const Option*> seen;
  for (const auto& [key, value] : object.items()) {
    OptionMatch match = find_option(command, key);
    if (!match) match.option = find_key(command, key);
    if (!match) {
      const std::string near = nearest(with_dashes(key), option_spellings(command));
      throw UsageError("unknown key '" + key + "', which is no option of " + command.name, file,
                       near.empty() ? "hydrascope help " + command.name + " lists the options"
                                    : "did you mean " + near + "?");
    }
    if (belongs_to_the_command_line(*match.option)) {
      throw UsageError("'" + key + "' has no place in a configuration file", file);
    }
    if (!seen.insert(match.option).second) {
      throw UsageError("'" + key + "' sets " + match.option->name + " for the second time", file);
    }
    settings.push_back(read_setting(match, key, value, file));
  }
  return settings;
}

std::string ParsedOptions::dump_config() const {
  Json object = Json::object();
  for (const auto& [name, entry] : entries_) {
    if (entry.option.is_argument || belongs_to_the_command_line(entry.option) ||
        entry.values.empty())
      continue;
    if (entry.option.hidden && entry.source == Source::default_value) continue;
    if (entry.option.field == Field(&SettingsRequest::words)) continue;
    if (entry.option.may_hold_several()) {
      Json& list = object[name] = Json::array();
      for (const std::string& word : entry.values) list.push_back(to_json(entry.option, word));
    } else {
      object[name] = to_json(entry.option, entry.values.back());
    }
  }
  const std::string text = object.dump(2) + '\n';
  return printable_lines(text) == text ? text : object.dump(2, ' ', /*ensure_ascii=*/true) + '\n';
}

}  // namespace hydrascope::app
