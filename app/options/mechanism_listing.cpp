#include "app/options/mechanism_listing.h"

#include "app/results/json.h"
#include "model/registry/mechanisms.h"
#include "model/registry/memories.h"
#include "model/registry/positions.h"

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

/// People read `flag` and a value of each option.
void add_options(const auto& entry, const std::string& flag, Report& report) {
  report.summary.add("options", options_json(entry.options), 0, kInJson);
  ResultTable options({{"option", "option"}, {"help", "what it is"}, {"default", "default"}});
  for (const model::MechanismOption& option : entry.options)
    options.add({flag + entry.name + '.' + option.key + '=' + model::describe_values(option),
                 option.help, option.default_value});
  report.add_table("", "options", std::move(options), kForPeople);
  ResultTable parameters(
      {{"name", "parameter"}, {"shape", "shape"}, {"initialisation", "initialisation"}});
  for (const model::MechanismParameter& parameter : entry.parameters)
    parameters.add({"blocks.i.attn." + parameter.name, parameter.shape, parameter.initialisation});
  report.add_table("parameters", "parameters", std::move(parameters));
}

Report begin_report(const auto& entry, const char* kind) {
  Report report(entry.name);
  report.add(kind, entry.name);
  report.add("aliases", entry.aliases);
  report.add("summary", entry.summary);
  report.add("citation", entry.citation);
  return report;
}

}  // namespace

Report position_rule_report(const model::PositionEntry& entry) {
  Report report = begin_report(entry, "rule");
  report.add("scores", entry.scores);
  add_options(entry, "--set rel-pos-opt=", report);
  return report;
}

Report memory_report(const model::MemoryEntry& entry) {
  Report report = begin_report(entry, "memory");
  report.add("equation", entry.equation);
  add_options(entry, "--set memory-opt=", report);
  return report;
}

Report mechanism_report(const model::MechanismEntry& entry) {
  Report report = begin_report(entry, "mechanism");
  report.add("map", entry.map_definition);
  for (const auto& [key, holds] : {std::pair{"rows_sum_to_one", entry.rows_sum_to_one},
                                   {"non_negative", entry.non_negative},
                                   {"normalised", entry.normalised},
                                   {"permutation_equivariant", entry.permutation_equivariant},
                                   {"quadratic", entry.quadratic},
                                   {"sparse", entry.sparse},
                                   {"fixed_num_tokens", entry.fixed_num_tokens},
                                   {"has_map", entry.has_map},
                                   {"query_is_input", entry.query_is_input},
                                   {"takes_positions", entry.takes_positions}})
    report.summary.add(key, holds, 0, kInJson | kInRows);
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
  for (const auto& [holds, text] : properties)
    if (holds) report.remarks.emplace_back(text);
  add_options(entry, "--set attn-opt=", report);
  const OrderedJson all = costs(entry);
  report.summary.add("cost_per_layer_base_bf16", all, 0, kInJson);
  ResultTable table(
      {{"size", "size"}, {"gflops", "GFLOP", 2}, {"megabytes", "MB moved when fused", 1}});
  for (const auto& [size, cost] : all.items())
    table.add({size, cost.at("gflops"), cost.at("megabytes")});
  report.add_table("", "one layer of ViT-B, bfloat16", std::move(table), kForPeople);
  return report;
}

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const model::MechanismEntry* entry : model::mechanisms()) names.push_back(entry->name);
  return names;
}

std::vector<std::string> position_names() {
  std::vector<std::string> names{std::string(model::kNoRule)};
  for (const model::PositionEntry* entry : model::position_rules()) names.push_back(entry->name);
  return names;
}

std::vector<std::string> memory_names() {
  std::vector<std::string> names{std::string(model::kNoMemory)};
  for (const model::MemoryEntry* entry : model::memories()) names.push_back(entry->name);
  return names;
}

}  // namespace hydrascope::app
