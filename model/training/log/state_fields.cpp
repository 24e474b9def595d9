#include "model/training/log/state_fields.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

#include <nlohmann/json.hpp>

namespace hydrascope::model::training {
namespace {

template <class Number>
Number parsed_field(const checkpoint::Metadata& fields, const std::string& key,
                    const std::string& file) {
  const auto found = fields.find(key);
  if (found == fields.end()) throw Error(ErrorCode::decode_failed, "the state has no " + key, file);
  const std::string& text = found->second;
  const std::optional value = parse_number<Number>(text);
  if (!value)
    throw Error(ErrorCode::decode_failed, key + " of the state is no number: " + text, file);
  return *value;
}

}  // namespace

void require_same_run(const std::string& wanted, const std::string& of_state,
                      const std::string& file) {
  using Json = nlohmann::json;
  const Json asked = Json::parse(wanted);
  const Json found = Json::parse(of_state, nullptr, /*allow_exceptions=*/false);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "the state was made with other settings: " + what,
                file, "give the options of that run, or begin anew: `force` without `resume`");
  };
  if (!found.is_object()) refuse("it does not say which");
  for (const auto& [name, value] : asked.items())
    if (!found.contains(name) || found.at(name) != value) refuse(name);
  for (const auto& [name, value] : found.items())
    if (!asked.contains(name)) refuse(name);
}

std::int64_t integer_field(const checkpoint::Metadata& fields, const std::string& key,
                           const std::string& file) {
  return parsed_field<std::int64_t>(fields, key, file);
}

double number_field(const checkpoint::Metadata& fields, const std::string& key,
                    const std::string& file) {
  return parsed_field<double>(fields, key, file);
}

std::string to_field(double value) { return shortest_number(value); }

}  // namespace hydrascope::model::training
