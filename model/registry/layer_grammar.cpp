#include "model/registry/layer_grammar.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <utility>

namespace hydrascope::model {
namespace {

[[noreturn]] void refuse(std::string_view part, const std::string& what, const LayerField& field) {
  throw Error(ErrorCode::invalid_argument, what + " in '" + std::string(part) + "'", field.subject,
              field.examples);
}

std::int64_t number(std::string_view word, std::string_view part, const LayerField& field) {
  const std::optional value = parse_number<std::int64_t>(word);
  constexpr std::int64_t kMost = 1 << 20;  // beyond any depth, and safe to add to
  if (!value || *value < 0 || *value > kMost)
    refuse(part, "expected a layer number, found '" + std::string(word) + "'", field);
  return *value;
}

}  // namespace

std::vector<std::int64_t> select_layers(std::optional<std::string_view> chosen, std::int64_t depth,
                                        std::string_view part, const LayerField& field) {
  const std::string_view selector = chosen.value_or("every1");
  std::int64_t begin = 0;
  std::int64_t end = depth;  // one past the last
  std::int64_t step = 1;
  const auto count_after = [&](std::string_view word) {
    const std::int64_t count = number(selector.substr(word.size()), part, field);
    if (count < 1 || count > depth) {
      refuse(part,
             "expected 1 to " + std::to_string(depth) + " layers, found " + std::to_string(count),
             field);
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
    begin = number(selector.substr(0, dash), part, field);
    end = 1 +
          (dash == std::string_view::npos ? begin : number(selector.substr(dash + 1), part, field));
    if (begin >= end) refuse(part, "the range is empty", field);
    if (end > depth) {
      refuse(
          part,
          "layers go from 0 to " + std::to_string(depth - 1) + ", found " + std::to_string(end - 1),
          field);
    }
  }
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = begin; layer < end; layer += step) layers.push_back(layer);
  return layers;
}

std::vector<LayerPart> parse_layers(std::string_view spec, std::int64_t depth,
                                    const LayerField& field,
                                    const std::function<std::string(std::string_view)>& canonical) {
  std::vector<LayerPart> parts;
  std::vector<std::string_view> texts;
  constexpr std::size_t kNobody = -1;
  // Position of the last part that names each layer.
  std::vector<std::size_t> owner(static_cast<std::size_t>(depth), kNobody);
  std::string_view rest = spec;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view text = rest.substr(0, comma);
    const auto colon = text.find(':');
    if (text.substr(0, colon).empty()) refuse(spec, field.noun + " is missing", field);
    const auto selector =
        colon == std::string_view::npos ? std::nullopt : std::optional(text.substr(colon + 1));
    LayerPart part{canonical(text.substr(0, colon)), select_layers(selector, depth, text, field)};
    for (const std::int64_t layer : part.layers)
      owner[static_cast<std::size_t>(layer)] = parts.size();
    parts.push_back(std::move(part));
    texts.push_back(text);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (std::ranges::find(owner, part) == owner.end())
      refuse(spec, "later parts take all layers of '" + std::string(texts[part]) + "'", field);
  }
  return parts;
}

LayerSetting parse_layer_setting(std::string_view setting, const std::string& form,
                                 const LayerField& field) {
  const auto dot = setting.find('.');
  const auto equals = setting.find('=');
  if (dot == std::string_view::npos || equals == std::string_view::npos || dot > equals) {
    throw Error(ErrorCode::invalid_argument,
                "expected " + form + ", found '" + std::string(setting) + "'", field.subject);
  }
  const std::string_view whose = setting.substr(0, dot);
  const auto colon = whose.find(':');
  return {whose.substr(0, colon),
          colon == std::string_view::npos ? std::nullopt : std::optional(whose.substr(colon + 1)),
          std::string(setting.substr(dot + 1, equals - dot - 1)),
          std::string(setting.substr(equals + 1))};
}

}  // namespace hydrascope::model
