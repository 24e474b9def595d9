#include "model/config/config.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

namespace hydrascope::model {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson write_field(const std::string& value) { return value; }
OrderedJson write_field(std::int64_t value) { return value; }
OrderedJson write_field(double value) { return value; }
OrderedJson write_field(bool value) { return value; }
template <HasWords Enum>
OrderedJson write_field(Enum value) {
  return std::string(name(value));
}
OrderedJson write_field(const std::vector<std::int64_t>& values) { return values; }
/// A name alone, or {"mechanism": name, "options": {..}} if there are options.
OrderedJson write_layer(const char* what, const std::string& name,
                        const std::map<std::string, std::string>& options) {
  if (options.empty()) return name;
  return {{what, name}, {"options", options}};
}
OrderedJson write_field(const std::vector<AttentionSpec>& layers) {
  OrderedJson array = OrderedJson::array();
  for (const AttentionSpec& layer : layers)
    array.push_back(write_layer("mechanism", layer.mechanism, layer.options));
  return array;
}
OrderedJson write_field(const std::vector<PositionSpec>& layers) {
  OrderedJson array = OrderedJson::array();
  for (const PositionSpec& layer : layers)
    array.push_back(write_layer("rule", layer.rule, layer.options));
  return array;
}

/// Reads one field. Throws a std::string that names the expected value.
void read_field(const OrderedJson& json, std::string& value) {
  if (!json.is_string()) throw std::string("a string");
  value = json.get<std::string>();
}
void read_field(const OrderedJson& json, std::int64_t& value) {
  if (!json.is_number_integer()) throw std::string("an integer");
  value = json.get<std::int64_t>();
}
void read_field(const OrderedJson& json, double& value) {
  if (!json.is_number()) throw std::string("a number");
  value = json.get<double>();
}
void read_field(const OrderedJson& json, bool& value) {
  if (!json.is_boolean()) throw std::string("true or false");
  value = json.get<bool>();
}
template <HasWords Enum>
void read_field(const OrderedJson& json, Enum& value) {
  const auto known =
      json.is_string() ? find_word<Enum>(json.get<std::string>()) : std::optional<Enum>{};
  if (!known) {
    std::string expected;
    const auto all = words(Enum{});
    for (const std::string_view& word : all) {
      expected += &word == &all.front() ? "" : &word == &all.back() ? " or " : ", ";
      expected += "\"" + std::string(word) + "\"";
    }
    throw expected;
  }
  value = *known;
}
void read_field(const OrderedJson& json, std::vector<std::int64_t>& values) {
  if (!json.is_array() || !std::ranges::all_of(json, &OrderedJson::is_number_integer))
    throw std::string("a list of integers");
  values = json.get<std::vector<std::int64_t>>();
}
/// Reads the form of `write_layer`: calls `add(name, options)` for each layer.
template <class Add>
void read_layers(const OrderedJson& json, const std::string& what, const Add& add) {
  const std::string expected =
      "a list of " + what + " names or {\"" + what + "\", \"options\"} objects";
  if (!json.is_array()) throw expected;
  for (const OrderedJson& item : json) {
    std::map<std::string, std::string> options;
    if (item.is_string()) {
      add(item.template get<std::string>(), options);
    } else if (item.is_object() && item.contains(what) && item.at(what).is_string()) {
      const OrderedJson values = item.value("options", OrderedJson::object());
      for (const auto& [key, value] : values.items()) {
        if (!value.is_string()) throw expected;
        options[key] = value.template get<std::string>();
      }
      add(item.at(what).template get<std::string>(), options);
    } else {
      throw expected;
    }
  }
}
void read_field(const OrderedJson& json, std::vector<AttentionSpec>& layers) {
  layers.clear();
  read_layers(json, "mechanism", [&](const std::string& name, auto options) {
    const MechanismEntry& entry = find_mechanism(name);
    std::erase_if(options, [&](const auto& option) {
      const auto former = entry.former_options.find(option.first);
      return former != entry.former_options.end() && former->second == option.second;
    });
    layers.push_back({entry.name, std::move(options)});
  });
}
void read_field(const OrderedJson& json, std::vector<PositionSpec>& layers) {
  layers.clear();
  read_layers(json, "rule", [&](const std::string& name, auto options) {
    layers.push_back({name == kNoRule ? name : find_position_rule(name).name, std::move(options)});
  });
}

/// Characters of a wrong value that a message shows.
constexpr std::size_t kShownJson = 80;

[[noreturn]] void refuse(std::string_view field, const std::string& expected,
                         const std::string& found) {
  throw Error(ErrorCode::invalid_argument,
              std::string(field) + ": expected " + expected + ", found " + found,
              "model configuration");
}

void expect_range(std::string_view field, std::int64_t value, std::int64_t least,
                  std::int64_t most) {
  if (value < least || value > most) {
    refuse(field, std::to_string(least) + " to " + std::to_string(most), std::to_string(value));
  }
}

/// Checks the rules of layers, and whether the layers can have them.
void validate_positions(const VitConfig& config) {
  if (config.pos_embed == PosEmbed::sincos && config.embed_dim % 4 != 0) {
    refuse("pos_embed",
           "another one than sincos for " + std::to_string(config.embed_dim) +
               " features, which are no multiple of 4",
           "\"sincos\"");
  }
  if (!config.rel_pos.empty() && std::cmp_not_equal(config.rel_pos.size(), config.depth)) {
    refuse("rel_pos", std::to_string(config.depth) + " layers",
           std::to_string(config.rel_pos.size()));
  }
  for (std::int64_t index = 0; std::cmp_less(index, config.rel_pos.size()); ++index) {
    const PositionSpec& layer = config.rel_pos[static_cast<std::size_t>(index)];
    if (layer.rule == kNoRule) {
      if (!layer.options.empty()) refuse("rel_pos", "no options of none", "some");
      continue;
    }
    const PositionEntry& entry = find_position_rule(layer.rule);
    for (const auto& [key, value] : layer.options)
      check_option(entry, key, value, "model configuration: rel_pos");
    const std::string of_layer = " in layer " + std::to_string(index);
    const MechanismEntry& mechanism = find_mechanism(config.attention_of(index).mechanism);
    if (!mechanism.takes_positions) {
      refuse("rel_pos",
             "none" + of_layer + ", whose mechanism '" + mechanism.name +
                 "' has no scores of pairs that a rule could change",
             "\"" + entry.name + "\"");
    }
    if (config.head_dim() % entry.head_multiple != 0) {
      refuse("rel_pos",
             "another rule" + of_layer + ": " + std::to_string(config.head_dim()) +
                 " features of a head are no multiple of " + std::to_string(entry.head_multiple),
             "\"" + entry.name + "\"");
    }
    if (config.overview && !entry.places_overview)
      refuse("overview", "false with '" + entry.name + "', which knows one grid of patches",
             "true");
  }
}

/// Checks the layers' way of joining, sharing and leaving, and whether the network can have it.
void validate_depth(const VitConfig& config) {
  expect_range("share_blocks", config.share_blocks, 0, config.depth);
  const auto refuse_beside = [](std::string_view field, const std::string& found, bool is_there,
                                const char* what) {
    if (is_there) refuse(field, std::string("another value beside ") + what, found);
  };
  const bool has_tables = config.pos_embed == PosEmbed::layers;
  if (config.share_blocks > 0) {
    const std::string found = std::to_string(config.share_blocks);
    if (config.depth % config.share_blocks != 0)
      refuse("share_blocks", "a divisor of depth " + std::to_string(config.depth), found);
    for (std::int64_t layer = config.share_blocks; layer < config.depth; ++layer) {
      const std::int64_t block = config.block_of(layer);
      if (!(config.attention_of(layer) == config.attention_of(block)) ||
          !(config.rel_pos_of(layer) == config.rel_pos_of(block)))
        refuse("share_blocks",
               "layers with the attention and the positions of the block that they share",
               found + ", and layer " + std::to_string(layer) + " differs from layer " +
                   std::to_string(block));
    }
    refuse_beside("share_blocks", found, has_tables, "tables of positions in every layer");
  } else if (config.step_embed) {
    refuse("step_embed", "false without share_blocks", "true");
  }
  if (config.residual == Residual::reversible) {
    refuse_beside("residual", "\"reversible\"", has_tables, "tables of positions in every layer");
    refuse_beside("residual", "\"reversible\"", config.step_embed, "step_embed");
    refuse_beside("residual", "\"reversible\"", config.halting, "halting");
  }
  if (!(config.gate_scale > 0))
    refuse("gate_scale", "a number above 0", shortest_number(config.gate_scale));
  if (!std::isfinite(config.gate_center))
    refuse("gate_center", "a finite number", shortest_number(config.gate_center));
  if (!config.halting) return;
  refuse_beside("halting", "true", config.distilled || config.global_pool != Pooling::token,
                "answers that are not of the class token alone");
  refuse_beside("halting", "true", has_tables, "tables of positions in every layer");
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    const AttentionSpec attention = config.attention_of(layer);
    const auto scale = attention.options.find("logit_scale");
    refuse_beside("halting", "true",
                  find_mechanism(attention.mechanism).name != "softmax" ||
                      (scale != attention.options.end() && scale->second != "none") ||
                      config.rel_pos_of(layer).rule != kNoRule,
                  "attention that is not plain softmax");
  }
}

/// Checks the exits, and whether the network can have them.
void validate_exits(const VitConfig& config) {
  if (!(config.exit_threshold >= -1 && config.exit_threshold <= 1))
    refuse("exit_threshold", "-1 to 1", shortest_number(config.exit_threshold));
  if (config.exits.empty()) return;
  const std::string found = write_field(config.exits).dump();
  if (std::ranges::adjacent_find(config.exits, std::greater_equal<>()) != config.exits.end() ||
      config.exits.front() < 0 || config.exits.back() > config.depth - 2)
    refuse("exits",
           config.depth < 2
               ? "none in a model of one layer"
               : "layers from 0 to " + std::to_string(config.depth - 2) + ", ascending",
           found.substr(0, kShownJson));
  if (config.num_classes == 0) refuse("exits", "none in a model without classes", found);
  if (config.share_blocks > 0 || !why_modules_alone(config).empty())
    refuse("exits", "none beside blocks that are shared, reversible or gated, or halting", found);
  if (config.coarse_exits) {
    if (config.exit_rule != ExitRule::margin && config.exit_rule != ExitRule::entropy)
      refuse("exit_rule", "margin or entropy: coarse exits learn nothing",
             "\"" + std::string(name(config.exit_rule)) + "\"");
    const bool has_rules = std::ranges::any_of(
        config.rel_pos, [](const PositionSpec& rule) { return rule.rule != kNoRule; });
    if (has_rules || config.pos_embed == PosEmbed::layers)
      refuse("exits", "no coarse ones in a model whose layers know positions", found);
    return;
  }
  if (config.global_pool != Pooling::token || !config.final_norm || config.fc_norm)
    refuse("exits", "none in a model whose classifier does not read its class token behind a norm",
           found);
  if (config.swiglu_mlp || config.scale_mlp || config.scale_attn || config.post_norm)
    refuse("exits", "none beside gated MLPs, norms inside a branch or norms behind branches",
           found);
}

}  // namespace

std::string why_modules_alone(const VitConfig& config) {
  if (config.residual == Residual::reversible) return "plans have one stream of tokens, not two";
  if (config.residual == Residual::gru) return "plans have sums in the place of gates";
  if (config.step_embed) return "plans add no signal of the step";
  if (config.halting) return "plans keep a picture's tokens to the end";
  return {};
}

void set_steps(VitConfig& config, std::int64_t steps) {
  if (config.share_blocks == 0)
    throw Error(ErrorCode::invalid_argument, "the model's layers share no blocks",
                "`depth_steps` " + std::to_string(steps));
  config.depth = steps * config.share_blocks;
  const auto repeat = [&](auto& layers) {
    const auto period = static_cast<std::size_t>(config.share_blocks);
    if (layers.empty()) return;
    layers.resize(period);
    while (std::cmp_less(layers.size(), config.depth))
      layers.push_back(layers[layers.size() - period]);
  };
  repeat(config.attention);
  repeat(config.rel_pos);
}

PositionSpec VitConfig::rel_pos_of(std::int64_t index) const {
  return rel_pos.empty() ? PositionSpec{} : rel_pos.at(static_cast<std::size_t>(index));
}

AttentionSpec VitConfig::attention_of(std::int64_t index) const {
  return attention.empty() ? AttentionSpec{} : attention.at(static_cast<std::size_t>(index));
}

TokenGrid VitConfig::token_grid(std::int64_t rows, std::int64_t columns) const {
  TokenGrid grid{num_prefix_tokens(), rows, columns, 0, 0, reg_tokens};
  if (overview && rows > grid_rows() && columns > grid_columns()) {
    // Greatest length in training grids. Every patch of the overview sees the whole overview, so a
    // panorama's, which would be as long as the picture, is reduced further.
    constexpr double kLongest = 4;
    const double of_rows = static_cast<double>(grid_rows()) / static_cast<double>(rows);
    const double of_columns = static_cast<double>(grid_columns()) / static_cast<double>(columns);
    const double scale =
        std::min(std::max(of_rows, of_columns), kLongest * std::min(of_rows, of_columns));
    const auto reduced = [&](std::int64_t patches) {
      return std::max<std::int64_t>(1, std::llround(scale * static_cast<double>(patches)));
    };
    grid.overview_rows = reduced(rows);
    grid.overview_columns = reduced(columns);
  }
  return grid;
}

void validate(const VitConfig& config) {
  // The bounds keep every product below in 64 bits and a hostile file from asking for terabytes.
  constexpr std::int64_t kMostPixels = 1 << 17;
  expect_range("patch_size", config.patch_size, 1, 1024);
  for (const auto& [field, value] :
       {std::pair{"img_height", config.img_height}, {"img_width", config.img_width}}) {
    expect_range(field, value, config.patch_size, kMostPixels);
    if (value % config.patch_size != 0) {
      refuse(field, "a multiple of patch_size " + std::to_string(config.patch_size),
             std::to_string(value));
    }
  }
  expect_range("in_chans", config.in_chans, 1, 64);
  expect_range("num_classes", config.num_classes, 0, 10'000'000);
  expect_range("embed_dim", config.embed_dim, 1, 1 << 15);
  expect_range("depth", config.depth, 1, 1024);
  expect_range("num_heads", config.num_heads, 1, config.embed_dim);
  if (config.embed_dim % config.num_heads != 0) {
    refuse("num_heads", "a divisor of embed_dim " + std::to_string(config.embed_dim),
           std::to_string(config.num_heads));
  }
  if (!(config.mlp_ratio > 0 && config.mlp_ratio <= 64)) {
    refuse("mlp_ratio", "a number in (0, 64]", shortest_number(config.mlp_ratio));
  }
  expect_range("reg_tokens", config.reg_tokens, 0, 1 << 12);
  if (!(config.layer_norm_eps > 0 && config.layer_norm_eps < 1)) {
    refuse("layer_norm_eps", "a number in (0, 1)", shortest_number(config.layer_norm_eps));
  }
  if (config.distilled && !config.class_token)
    refuse("class_token", "true with distilled", "false");
  if (config.global_pool == Pooling::token && !config.class_token) {
    refuse("global_pool", "\"avg\" without a class token", "\"token\"");
  }
  if (config.distilled && config.global_pool != Pooling::token) {
    refuse("global_pool", "\"token\" with distilled",
           "\"" + std::string(name(config.global_pool)) + "\"");
  }
  expect_range("pool_heads", config.pool_heads, 0, config.embed_dim);
  if (config.embed_dim % config.heads_of_pool() != 0)
    refuse("pool_heads", "a divisor of embed_dim " + std::to_string(config.embed_dim),
           std::to_string(config.pool_heads));
  if (config.global_pool != Pooling::map && (config.pool_heads > 0 || config.pool_prefix))
    refuse("global_pool", "\"map\" with pool_heads or pool_prefix",
           "\"" + std::string(name(config.global_pool)) + "\"");
  if (config.global_pool == Pooling::map &&
      (config.swiglu_mlp || config.scale_mlp || !config.proj_bias))
    refuse("global_pool",
           "no attention pooling beside MLPs that are gated, have a norm or lack biases",
           "\"map\"");
  if (config.fc_norm && config.global_pool == Pooling::map)
    refuse("fc_norm", "false with attention pooling", "true");
  if (config.fc_norm && !config.final_norm) refuse("final_norm", "true with fc_norm", "false");
  if (config.swiglu_mlp && config.act != Activation::gelu)
    refuse("act", "\"gelu\" with gated MLPs, which have SiLU",
           "\"" + std::string(name(config.act)) + "\"");
  if (!config.attention.empty() &&
      static_cast<std::int64_t>(config.attention.size()) != config.depth) {
    refuse("attention", std::to_string(config.depth) + " layers",
           std::to_string(config.attention.size()));
  }
  for (const AttentionSpec& layer : config.attention) {
    const MechanismEntry& entry = find_mechanism(layer.mechanism);
    for (const auto& [key, value] : layer.options) {
      check_option(entry, key, value, "model configuration: attention");
    }
    if (config.overview && !entry.permutation_equivariant && !entry.sparse)
      refuse("overview", "false with '" + entry.name + "', which knows one grid of patches",
             "true");
  }
  validate_positions(config);
  validate_depth(config);
  validate_exits(config);
}

std::string to_json(const VitConfig& config, int indent) {
  OrderedJson json = OrderedJson::object();
  VitConfig::visit(config, [&](std::string_view field, const auto& value) {
    json[std::string(field)] = write_field(value);
  });
  return json.dump(indent);
}

VitConfig config_from_json(std::string_view text, const std::string& subject) {
  // Metadata of a hostile file: the strict reader bounds nesting and refuses keys that come twice.
  const OrderedJson json = checkpoint::parse_json_object(text, subject);
  VitConfig config;
  std::vector<std::string> known;
  VitConfig::visit(config, [&](std::string_view field, auto& value) {
    known.emplace_back(field);
    const auto found = json.find(field);
    if (found == json.end()) return;
    try {
      read_field(*found, value);
    } catch (const std::string& expected) {
      throw Error(ErrorCode::invalid_argument,
                  std::string(field) + ": expected " + expected + ", found " +
                      found->dump().substr(0, kShownJson),
                  subject);
    }
  });
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string fields;
    for (const std::string& field : known) fields += (fields.empty() ? "" : ", ") + field;
    throw Error(ErrorCode::invalid_argument, "unknown key '" + key + "'", subject,
                "fields: " + fields);
  }
  validate(config);
  return config;
}

std::string to_text(const VitConfig& config) {
  std::string text;
  VitConfig::visit(config, [&](std::string_view field, const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::vector<AttentionSpec>> ||
                  std::is_same_v<Value, std::vector<PositionSpec>>) {
      text += std::string(field) + ": " + to_text(value) + "\n";
    } else {
      const OrderedJson json = write_field(value);
      text += std::string(field) + ": " +
              (json.is_string() ? json.get<std::string>() : json.dump()) + "\n";
    }
  });
  return text;
}

}  // namespace hydrascope::model
