#include "model/registry/attention_spec.h"

#include "kernels/error.h"
#include "model/registry/mechanisms.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

namespace hydrascope::model {
namespace {

/// `part` is of a specification of all layers, or of an option.
[[noreturn]] void refuse(std::string_view part, const std::string& what) {
  const bool is_option = part.find('=') != std::string_view::npos;
  throw Error(ErrorCode::invalid_argument, what + " in '" + std::string(part) + "'",
              is_option ? "`attention_options`" : "`attention`",
              is_option ? "layers are 3 | 0-9 | last4 | first2 | every2"
                        : "examples: hydra | softmax:0-9,hydra:10-11 | hydra:last4 | hydra:every2");
}

/// The parts of "mechanism[:layers].key=value".
struct OptionText {
  std::string_view mechanism, key, value;
  std::optional<std::string_view> selector;
};

OptionText option_text(std::string_view option) {
  // A value may hold any of the marks, what is in front of it holds each once.
  const std::string_view before = option.substr(0, option.find('='));
  const auto dot = before.find('.');
  if (before.size() == option.size() || dot == std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument,
                "expected mechanism.key=value or mechanism:layers.key=value, found '" +
                    std::string(option) + "'",
                "`attention_options`");
  }
  const auto colon = before.substr(0, dot).find(':');
  OptionText text{before.substr(0, std::min(dot, colon)), before.substr(dot + 1),
                  option.substr(before.size() + 1), std::nullopt};
  if (colon < dot) text.selector = before.substr(colon + 1, dot - colon - 1);
  return text;
}

std::int64_t number(std::string_view word, std::string_view part) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  constexpr std::int64_t kMost = 1 << 20;  // beyond any depth, and safe to add to
  if (status != std::errc{} || end != word.data() + word.size() || value < 0 || value > kMost) {
    refuse(part, "expected a layer number, found '" + std::string(word) + "'");
  }
  return value;
}

/// The layers that a selector ("", "3", "0-9", "last4", "first2", "every2") names.
std::vector<std::int64_t> select(std::string_view selector, std::int64_t depth,
                                 std::string_view part) {
  std::int64_t begin = 0;
  std::int64_t end = depth;  // one past the last
  std::int64_t step = 1;
  const auto count_after = [&](std::string_view word) {
    const std::int64_t count = number(selector.substr(word.size()), part);
    if (count < 1 || count > depth) {
      refuse(part,
             "expected 1 to " + std::to_string(depth) + " layers, found " + std::to_string(count));
    }
    return count;
  };
  if (selector.starts_with("last")) {
    begin = depth - count_after("last");
  } else if (selector.starts_with("first")) {
    end = count_after("first");
  } else if (selector.starts_with("every")) {
    step = count_after("every");
    begin = (depth - 1) % step;  // counted from the last layer, which is always taken
  } else {
    const auto dash = selector.find('-');
    begin = number(selector.substr(0, dash), part);
    end = 1 + (dash == std::string_view::npos ? begin : number(selector.substr(dash + 1), part));
    if (begin >= end) refuse(part, "the range is empty");
    if (end > depth) {
      refuse(part, "layers go from 0 to " + std::to_string(depth - 1) + ", found " +
                       std::to_string(end - 1));
    }
  }
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = begin; layer < end; layer += step) layers.push_back(layer);
  return layers;
}

}  // namespace

void apply_attention_spec(std::string_view spec, std::vector<AttentionSpec>& layers) {
  const auto depth = static_cast<std::int64_t>(layers.size());
  // A copy, so that a part that is refused does not leave half a spec behind.
  std::vector<AttentionSpec> result = layers;
  std::vector<std::string_view> owner(layers.size());  // the part that decided on a layer last
  std::vector<std::string_view> parts;
  std::string_view rest = spec;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto colon = part.find(':');
    if (part.substr(0, colon).empty()) refuse(spec, "a mechanism's name is missing");
    const std::string& mechanism = find_mechanism(part.substr(0, colon)).name;
    std::vector<std::int64_t> chosen;
    if (colon == std::string_view::npos) {
      for (std::int64_t layer = 0; layer < depth; ++layer) chosen.push_back(layer);
    } else {
      chosen = select(part.substr(colon + 1), depth, part);
    }
    for (const std::int64_t layer : chosen) {
      AttentionSpec& current = result[static_cast<std::size_t>(layer)];
      // A layer that already runs the mechanism keeps the options its checkpoint was trained with.
      if (current.mechanism != mechanism) current = {mechanism, {}};
      owner[static_cast<std::size_t>(layer)] = part;
    }
    parts.push_back(part);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (const std::string_view part : parts) {
    const auto same = [&](std::string_view other) { return other.data() == part.data(); };
    if (std::ranges::none_of(owner, same))
      refuse(spec, "later parts take all layers of '" + std::string(part) + "'");
  }
  layers = std::move(result);
}

void apply_attention_option(std::string_view option, std::vector<AttentionSpec>& layers) {
  const OptionText text = option_text(option);
  const MechanismEntry& entry = find_mechanism(text.mechanism);
  const std::string key(text.key);
  check_option(entry, key, text.value, "`attention_options`");
  std::vector<std::int64_t> chosen;
  const auto depth = static_cast<std::int64_t>(layers.size());
  if (text.selector) {
    chosen = select(*text.selector, depth, option);
  } else {
    for (std::int64_t layer = 0; layer < depth; ++layer) chosen.push_back(layer);
  }
  bool used = false;
  for (const std::int64_t index : chosen) {
    AttentionSpec& layer = layers[static_cast<std::size_t>(index)];
    if (layer.mechanism != entry.name) continue;
    layer.options[key] = text.value;
    used = true;
  }
  if (!used) {
    throw Error(ErrorCode::invalid_argument,
                (text.selector ? "none of the layers '" + std::string(*text.selector) + "' runs "
                               : "no layer runs ") +
                    entry.name,
                "`attention_options`", "choose it with `attention`");
  }
}

std::map<std::string, std::string> attention_options(const std::vector<AttentionSpec>& layers) {
  std::map<std::string, std::set<std::string>> values;
  for (const AttentionSpec& layer : layers) {
    const MechanismOptions options(layer);
    for (const auto& [key, value] : options.all())
      values[layer.mechanism + "." + key].insert(value);
  }
  std::map<std::string, std::string> result;
  for (const auto& [key, distinct] : values) {
    std::string& text = result[key];
    for (const std::string& value : distinct) text += (text.empty() ? "" : "|") + value;
  }
  return result;
}

void check_stored_options(const std::vector<AttentionSpec>& trained,
                          const std::vector<AttentionSpec>& asked) {
  for (std::size_t layer = 0; layer < std::min(trained.size(), asked.size()); ++layer) {
    if (trained[layer].mechanism != asked[layer].mechanism) continue;
    const MechanismOptions before(trained[layer]);
    const MechanismOptions after(asked[layer]);
    for (const MechanismOption& option : find_mechanism(asked[layer].mechanism).options) {
      if (!option.of_stored_tensors || before.text(option.key) == after.text(option.key)) continue;
      throw Error(ErrorCode::invalid_argument,
                  "the checkpoint holds tensors made with " + option.key + "=" +
                      before.text(option.key) + ", which stay as they are",
                  "`attention_options` " + asked[layer].mechanism + "." + option.key + "=" +
                      after.text(option.key));
    }
  }
}

std::vector<AttentionSpec> with_all_options(std::vector<AttentionSpec> layers,
                                            const TokenGrid& training_grid) {
  for (AttentionSpec& layer : layers) {
    const MechanismOptions chosen(layer);
    layer.options = chosen.all();
    for (const MechanismOption& option : find_mechanism(layer.mechanism).options) {
      if (!option.is_extent) continue;
      const auto [rows, columns] = chosen.extent(option.key, training_grid);
      layer.options[option.key] =
          std::to_string(rows) + (rows == columns ? "" : "x" + std::to_string(columns));
    }
  }
  return layers;
}

std::string to_text(const std::vector<AttentionSpec>& layers) {
  std::set<std::string> names;
  for (const AttentionSpec& layer : layers) names.insert(layer.mechanism);
  if (names.empty()) return "softmax";
  if (names.size() == 1) return *names.begin();
  std::string text;
  for (std::size_t begin = 0; begin < layers.size();) {
    std::size_t end = begin + 1;
    while (end < layers.size() && layers[end].mechanism == layers[begin].mechanism) ++end;
    text += (text.empty() ? "" : ",") + layers[begin].mechanism + ":" + std::to_string(begin);
    if (end - begin > 1) text += "-" + std::to_string(end - 1);
    begin = end;
  }
  return text;
}

}  // namespace hydrascope::model
