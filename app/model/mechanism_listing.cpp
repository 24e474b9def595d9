#include "app/model/mechanism_listing.h"

#include "app/command.h"
#include "app/results/json.h"
#include "app/results/table.h"
#include "kernels/error.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

#include <fstream>
#include <ostream>
#include <utility>

namespace hydrascope::app {
namespace {

/// DeiT-B, patches of 16, at the sizes that the documentation's tables have.
OrderedJson costs(const model::MechanismEntry& entry) {
  constexpr std::int64_t kEmbedDim = 768;
  constexpr std::int64_t kHeads = 12;
  OrderedJson result = OrderedJson::object();
  const model::TokenGrid trained{1, 14, 14};
  for (const auto& [name, grid] : {std::pair{"224x224", trained},
                                   {"512x512", model::TokenGrid{1, 32, 32}},
                                   {"1088x1920", model::TokenGrid{1, 68, 120}}}) {
    const model::MixerCost cost =
        entry.cost({grid, kEmbedDim, kHeads, 2, trained}, model::AttentionSpec{entry.name, {}});
    result[name] = {{"gflops", cost.flops / 1e9}, {"megabytes", cost.bytes / 1e6}};
  }
  return result;
}

OrderedJson options_json(const std::vector<model::MechanismOption>& all) {
  OrderedJson options = OrderedJson::array();
  for (const model::MechanismOption& option : all) {
    OrderedJson json = {{"key", option.key}, {"default", option.default_value}};
    if (option.choices.empty()) {
      json["minimum"] = option.minimum;
      json["maximum"] = option.maximum;
      json["integer"] = option.integer;
    } else {
      json["choices"] = option.choices;
    }
    json["help"] = option.help;
    options.push_back(std::move(json));
  }
  return options;
}

OrderedJson parameters_json(const std::vector<model::MechanismParameter>& all) {
  OrderedJson parameters = OrderedJson::array();
  for (const model::MechanismParameter& parameter : all) {
    parameters.push_back({{"name", "blocks.i.attn." + parameter.name},
                          {"shape", parameter.shape},
                          {"initialisation", parameter.initialisation}});
  }
  return parameters;
}

OrderedJson to_json(const model::PositionEntry& entry) {
  return {{"schema", 1},
          {"rule", entry.name},
          {"aliases", entry.aliases},
          {"summary", entry.summary},
          {"citation", entry.citation},
          {"scores", entry.scores},
          {"options", options_json(entry.options)},
          {"parameters", parameters_json(entry.parameters)}};
}

OrderedJson to_json(const model::MechanismEntry& entry) {
  return {{"schema", 1},
          {"mechanism", entry.name},
          {"aliases", entry.aliases},
          {"summary", entry.summary},
          {"citation", entry.citation},
          {"options", options_json(entry.options)},
          {"parameters", parameters_json(entry.parameters)},
          {"map", entry.map_definition},
          {"rows_sum_to_one", entry.rows_sum_to_one},
          {"non_negative", entry.non_negative},
          {"normalised", entry.normalised},
          {"permutation_equivariant", entry.permutation_equivariant},
          {"quadratic", entry.quadratic},
          {"sparse", entry.sparse},
          {"fixed_num_tokens", entry.fixed_num_tokens},
          {"has_map", entry.has_map},
          {"query_is_input", entry.query_is_input},
          {"takes_positions", entry.takes_positions},
          {"cost_per_layer_base_bf16", costs(entry)}};
}

void write_head(const auto& entry, std::ostream& out) {
  out << entry.name << ": " << entry.summary << '\n';
  for (const std::string& alias : entry.aliases) out << "  also called " << alias << '\n';
}

void write_options(const auto& entry, const char* flag, std::ostream& out) {
  for (const model::MechanismOption& option : entry.options) {
    out << "  " << flag << ' ' << entry.name << '.' << option.key << '='
        << model::describe_values(option) << "  " << option.help
        << " (default: " << option.default_value << ")\n";
  }
  for (const model::MechanismParameter& parameter : entry.parameters) {
    out << "  adds blocks.i.attn." << parameter.name << ' ' << parameter.shape
        << ", initialised: " << parameter.initialisation << '\n';
  }
}

void write_text(const model::PositionEntry& entry, std::ostream& out) {
  write_head(entry, out);
  out << "  source: " << entry.citation << '\n' << "  scores: " << entry.scores << '\n';
  write_options(entry, "--rel-pos-opt", out);
}

void write_text(const model::MechanismEntry& entry, std::ostream& out) {
  write_head(entry, out);
  out << "  source: " << entry.citation << '\n' << "  map: " << entry.map_definition << '\n';
  const std::pair<bool, const char*> properties[] = {
      {entry.rows_sum_to_one, "rows of the map sum to one, or to nothing without any weight"},
      {entry.non_negative, "weights are not negative"},
      {entry.normalised, "repeating every token changes nothing"},
      {entry.sparse, "a query sees some of the tokens"},
      {!entry.normalised && !entry.quadratic && !entry.sparse,
       "the output depends on the number of tokens"},
      {!entry.permutation_equivariant, "the place of a token matters"},
      {entry.quadratic, "N x N weights by definition"},
      {entry.fixed_num_tokens, "tied to the number of tokens it was made for, unless told"}};
  for (const auto& [holds, text] : properties) {
    if (holds) out << "  " << text << '\n';
  }
  write_options(entry, "--attn-opt", out);
  const OrderedJson table = costs(entry);
  for (const auto& [size, cost] : table.items()) {
    out << "  one layer of ViT-B, bfloat16, " << size << ": " << cost.at("gflops").get<double>()
        << " GFLOP, " << cost.at("megabytes").get<double>() << " MB moved when fused\n";
  }
}

}  // namespace

namespace {

/// The names and options of entries, as an array of registrations in C++.
void write_entries(const auto& entries, const std::string& type, const char* array,
                   std::ostream& out) {
  const auto quoted = [](const std::string& text) { return OrderedJson(text).dump(); };
  out << "const " << type << ' ' << array << "[] = {\n";
  for (const auto* entry : entries) {
    out << "    " << type << "({.name = " << quoted(entry->name) << ", .options = {";
    for (const model::MechanismOption& option : entry->options) {
      out << "\n        {" << quoted(option.key) << ", " << quoted(option.default_value) << ", {";
      for (const std::string& choice : option.choices) out << quoted(choice) << ", ";
      out << "}, {}},";
    }
    out << "}}),\n";
  }
  out << "};\n\n";
}

std::vector<std::string> settings_of(const auto& entries) {
  std::vector<std::string> settings;
  for (const auto* entry : entries) {
    for (const model::MechanismOption& option : entry->options) {
      const std::string key = entry->name + "." + option.key + "=";
      if (option.choices.empty()) settings.push_back(key);
      for (const std::string& choice : option.choices) settings.push_back(key + choice);
    }
  }
  return settings;
}

}  // namespace

int write_registrations(const std::filesystem::path& file) {
  std::ofstream out(file);
  out << "// Written by the build, by hydrascope-engine.\n#include "
         "\"model/registry/positions.h\"\n\n"
         "namespace hydrascope::model {\nnamespace {\n\n";
  write_entries(model::mechanisms(), "MechanismRegistration", "kAll", out);
  write_entries(model::position_rules(), "PositionRegistration", "kAllRules", out);
  out << "}  // namespace\n}  // namespace hydrascope::model\n";
  out.close();
  if (!out) throw Error(ErrorCode::failed, "cannot be written", file.string());
  return kExitOk;
}

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const model::MechanismEntry* entry : model::mechanisms()) names.push_back(entry->name);
  return names;
}

std::vector<std::string> mechanism_settings() { return settings_of(model::mechanisms()); }

std::vector<std::string> position_names() {
  std::vector<std::string> names{std::string(model::kNoRule)};
  for (const model::PositionEntry* entry : model::position_rules()) names.push_back(entry->name);
  return names;
}

std::vector<std::string> position_settings() { return settings_of(model::position_rules()); }

namespace {

void write_entry(const auto& entry, Format format, std::ostream& out) {
  OrderedJson facts = to_json(entry);
  if (is_json(format)) {
    out << facts.dump(format == Format::json ? 2 : -1) << '\n';
  } else if (is_rows(format)) {
    facts.erase("schema");
    Summary row;
    for (auto& [key, value] : facts.items()) row.add(key, std::move(value));
    row.write(format, out);
  } else {
    write_text(entry, out);
  }
}

}  // namespace

void write_mechanism(const model::MechanismEntry& entry, Format format, std::ostream& out) {
  write_entry(entry, format, out);
}

void write_position_rule(const model::PositionEntry& entry, Format format, std::ostream& out) {
  write_entry(entry, format, out);
}

}  // namespace hydrascope::app
