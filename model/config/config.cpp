#include "model/config/config.h"

#include "kernels/error.h"
#include "kernels/shortest_number.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/registry/mechanisms.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace hydrascope::model {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson write_field(const std::string& value) { return value; }
OrderedJson write_field(std::int64_t value) { return value; }
OrderedJson write_field(double value) { return value; }
OrderedJson write_field(bool value) { return value; }
OrderedJson write_field(Pooling value) { return std::string(name(value)); }
OrderedJson write_field(PosInterp value) { return std::string(name(value)); }
OrderedJson write_field(const std::vector<AttentionSpec>& layers) {
  OrderedJson array = OrderedJson::array();
  for (const AttentionSpec& layer : layers) {
    if (layer.options.empty()) {
      array.push_back(layer.mechanism);
    } else {
      array.push_back({{"mechanism", layer.mechanism}, {"options", layer.options}});
    }
  }
  return array;
}

/// Reads one field or throws a std::string that says what was expected.
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
void read_field(const OrderedJson& json, Pooling& value) {
  if (json == "token") {
    value = Pooling::token;
  } else if (json == "avg") {
    value = Pooling::avg;
  } else {
    throw std::string("\"token\" or \"avg\"");
  }
}
void read_field(const OrderedJson& json, PosInterp& value) {
  const auto known =
      json.is_string() ? find_pos_interp(json.get<std::string>()) : std::optional<PosInterp>{};
  if (!known) throw std::string("\"timm\", \"hf\" or \"tile\"");
  value = *known;
}
void read_field(const OrderedJson& json, std::vector<AttentionSpec>& layers) {
  const std::string expected = "a list of mechanism names or {\"mechanism\", \"options\"} objects";
  if (!json.is_array()) throw expected;
  layers.clear();
  for (const OrderedJson& item : json) {
    AttentionSpec layer;
    if (item.is_string()) {
      layer.mechanism = item.get<std::string>();
    } else if (item.is_object() && item.contains("mechanism") && item.at("mechanism").is_string()) {
      layer.mechanism = item.at("mechanism").get<std::string>();
      const OrderedJson options = item.value("options", OrderedJson::object());
      for (const auto& [key, value] : options.items()) {
        if (!value.is_string()) throw expected;
        layer.options[key] = value.get<std::string>();
      }
    } else {
      throw expected;
    }
    const MechanismEntry& entry = find_mechanism(layer.mechanism);
    layer.mechanism = entry.name;
    std::erase_if(layer.options, [&](const auto& option) {
      const auto former = entry.former_options.find(option.first);
      return former != entry.former_options.end() && former->second == option.second;
    });
    layers.push_back(std::move(layer));
  }
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

}  // namespace

std::string_view name(Pooling pooling) { return pooling == Pooling::token ? "token" : "avg"; }

std::string_view name(PosInterp interpolation) {
  if (interpolation == PosInterp::tile) return "tile";
  return interpolation == PosInterp::timm ? "timm" : "hf";
}

std::optional<PosInterp> find_pos_interp(std::string_view word) {
  for (const PosInterp known : {PosInterp::timm, PosInterp::hf, PosInterp::tile}) {
    if (word == name(known)) return known;
  }
  return std::nullopt;
}

AttentionSpec VitConfig::attention_of(std::int64_t index) const {
  return attention.empty() ? AttentionSpec{} : attention.at(static_cast<std::size_t>(index));
}

TokenGrid VitConfig::token_grid(std::int64_t rows, std::int64_t columns) const {
  TokenGrid grid{num_prefix_tokens(), rows, columns, 0, 0, reg_tokens};
  if (overview && rows > grid_rows() && columns > grid_columns()) {
    // In training grids. Every patch of the overview sees all of it, so that of a panorama, which
    // would be as long as the picture, is reduced further.
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

bool operator==(const VitConfig& a, const VitConfig& b) {
  std::vector<OrderedJson> fields;
  const auto collect = [&](std::string_view, const auto& value) {
    fields.push_back(write_field(value));
  };
  VitConfig::visit(a, collect);
  const std::vector<OrderedJson> of_a = std::move(fields);
  fields.clear();
  VitConfig::visit(b, collect);
  return of_a == fields;
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
  expect_range("num_classes", config.num_classes, 1, 10'000'000);
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
  if (config.distilled && config.global_pool == Pooling::avg) {
    refuse("global_pool", "\"token\" with distilled", "\"avg\"");
  }
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
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<AttentionSpec>>) {
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
