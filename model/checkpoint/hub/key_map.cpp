#include "model/checkpoint/hub/key_map.h"

#include "kernels/error.h"
#include "model/checkpoint/hub/key_rules.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

namespace hydrascope::checkpoint {
namespace {

/// Prefixes of models and towers that belong to Hugging Face's layouts.
constexpr std::array<std::string_view, 9> kHuggingFaceModels{
    "vit.",  "deit.",  "dinov2.",          "dinov2_with_registers.", "dinov3_vit.",
    "beit.", "ijepa.", "data2vec_vision.", "vision_model."};
/// Prefixes of other models of Hugging Face whose blocks have ViT's names.
constexpr std::array<std::string_view, 5> kOtherModels{"audio_spectrogram_transformer.", "vilt.",
                                                       "videomae.", "vivit.", "dpt."};
/// Names of the classifier, which wrappers leave outside.
constexpr std::array<std::string_view, 8> kHeads{
    "head",  "head_dist",        "fc", "classifier", "cls_classifier", "distillation_classifier",
    "heads", "visual_projection"};
/// Entries that wrappers keep beside the model: AveragedModel's count, losses' class weights.
constexpr std::array<std::string_view, 4> kBeside{"n_averaged", "criterion.", "loss.", "loss_fn."};
/// Most wrappers around wrappers that are taken off.
constexpr std::size_t kMostWrappers = 8;

/// The part of a key that messages show.
std::string shown_key(std::string_view key) {
  constexpr std::size_t kLongest = 80;
  return std::string(key.substr(0, kLongest));
}

bool is_head(std::string_view key) {
  return std::ranges::find(kHeads, key.substr(0, key.find('.'))) != kHeads.end();
}

/// The texts behind the wildcards of a pattern.
struct Wildcards {
  std::string_view layer;  ///< behind '#'
  std::string_view rest;   ///< behind '*'
};

std::optional<Wildcards> match(std::string_view pattern, std::string_view key) {
  Wildcards found;
  while (!pattern.empty()) {
    const char expected = pattern.front();
    pattern.remove_prefix(1);
    if (expected == '*') {
      found.rest = key;
      return key.empty() ? std::nullopt : std::optional(found);
    }
    if (expected == '#') {
      const std::size_t end = std::min(key.find_first_not_of("0123456789"), key.size());
      if (end == 0) return std::nullopt;
      found.layer = key.substr(0, end);
      key.remove_prefix(end);
    } else {
      if (!key.starts_with(expected)) return std::nullopt;
      key.remove_prefix(1);
    }
  }
  return key.empty() ? std::optional(found) : std::nullopt;
}

std::string fill(std::string_view pattern, const Wildcards& wildcards) {
  std::string text;
  for (const char letter : pattern) {
    if (letter == '#') {
      text += wildcards.layer;
    } else if (letter == '*') {
      text += wildcards.rest;
    } else {
      text += letter;
    }
  }
  return text;
}

unsigned bit_of(const Layout& layout) {
  return 1U << static_cast<unsigned>(&layout - layouts.data());
}

/// DINOv2's chunks of blocks: `blocks.CHUNK.LAYER.`, where layers are counted through.
std::string without_chunk(std::string_view key) {
  const auto inside = match("blocks.#.#.*", key);
  return inside ? fill("blocks.#.*", *inside) : std::string(key);
}

bool holds(With with, bool has_classifier) { return with == With::any || has_classifier; }

/// Nothing if no rule has the key.
std::optional<MappedKey> map_by_rule(const Layout& layout, std::string_view key,
                                     bool has_classifier) {
  const std::string name = layout.native ? without_chunk(key) : std::string(key);
  for (const Rule& rule : rules) {
    if ((rule.layouts & bit_of(layout)) == 0 || !holds(rule.with, has_classifier)) continue;
    if (const auto wildcards = match(rule.pattern, name))
      return MappedKey{fill(rule.target, *wildcards), rule.part, rule.parts, rule.form, {}};
  }
  if (name != key) return MappedKey{name};
  return std::nullopt;
}

MappedKey map_key(const Layout& layout, std::string_view key, bool has_classifier) {
  return map_by_rule(layout, key, has_classifier).value_or(MappedKey{std::string(key)});
}

/// "" for a part of the model.
std::string_view left_out_as(const Layout& layout, std::string_view key) {
  for (const LeftOut& part : parts_left_out)
    if ((part.layouts & bit_of(layout)) != 0 && match(part.pattern, key)) return part.what;
  return "";
}

/// The prefix in front of the layout's marker in `key`; nothing without a marker.
std::optional<std::string_view> prefix_of(const Layout& layout, std::string_view key) {
  for (std::size_t start = 0; start < key.size();) {
    if (match(layout.marker, key.substr(start))) return key.substr(0, start);
    const std::size_t dot = key.find('.', start);
    if (dot == std::string_view::npos) break;
    start = dot + 1;
  }
  return std::nullopt;
}

/// The parts of a prefix, each with its dot.
std::vector<std::string> parts_of(std::string_view prefix) {
  std::vector<std::string> parts;
  while (!prefix.empty()) {
    const std::size_t size = prefix.find('.') + 1;
    parts.emplace_back(prefix.substr(0, size));
    prefix.remove_prefix(size);
  }
  return parts;
}

/// The classifier may stand outside of some wrappers: its prefix is a beginning of `prefix`.
std::optional<std::string_view> prefix_of_head(std::string_view prefix, std::string_view key) {
  for (std::size_t size = 0;;) {
    if (!key.starts_with(prefix.substr(0, size))) return std::nullopt;
    if (is_head(key.substr(size))) return prefix.substr(0, size);
    if (size == prefix.size()) return std::nullopt;
    size = prefix.find('.', size) + 1;
  }
}

/// The same for parts without use, which may stand at any beginning of the prefix.
std::string_view left_out_below(const Layout& layout, std::string_view prefix,
                                std::string_view key) {
  for (std::size_t size = 0;;) {
    if (!key.starts_with(prefix.substr(0, size))) return "";
    if (size == prefix.size() && (bit_of(layout) & kClip) != 0) return "";
    if (const std::string_view what = left_out_as(layout, key.substr(size)); !what.empty())
      return what;
    if (size == prefix.size()) return "";
    size = prefix.find('.', size) + 1;
  }
}

bool is_beside(std::string_view key) {
  return std::ranges::any_of(kBeside, [&](std::string_view name) {
    return key == name || (name.ends_with('.') && key.starts_with(name));
  });
}

[[noreturn]] void refuse(std::span<const std::string> keys, const std::string& subject) {
  if (keys.empty()) throw Error(ErrorCode::unsupported_format, "holds no tensors", subject);
  constexpr std::size_t kShown = 3;
  std::string shown;
  for (const std::string& key : keys.first(std::min(keys.size(), kShown)))
    shown += (shown.empty() ? "" : ", ") + shown_key(key);
  std::string known;
  for (const Layout& layout : layouts)
    known += (known.empty() ? "" : ", ") + std::string(layout.name);
  throw Error(ErrorCode::unsupported_format,
              "tensor names are not those of a known ViT layout (found " + shown + ", ...)",
              subject, "layouts this build reads: " + known);
}

}  // namespace

std::vector<std::string> KeyMapping::file_names(std::string_view target) const {
  const std::string& front = is_head(target) ? head_prefix : prefix;
  if (layout->native) return {front + std::string(target)};
  std::vector<std::string> names;
  for (const Rule& rule : rules) {
    if ((rule.layouts & bit_of(*layout)) == 0 || rule.target.empty() ||
        rule.form == Form::no_key_bias || !holds(rule.with, pools_mean))
      continue;
    const auto wildcards = match(rule.target, target);
    // Two spellings of a tensor are as good as one another; q, k and v are three tensors.
    if (!wildcards || (rule.part == kWhole && !names.empty())) continue;
    names.push_back(front + fill(rule.pattern, *wildcards));
  }
  if (names.empty()) names.push_back(front + std::string(target));
  return names;
}

std::vector<std::string> KeyMapping::left_out() const {
  std::map<std::string_view, std::size_t> counts;
  for (const MappedKey& key : keys)
    if (!key.left_out.empty()) ++counts[key.left_out];
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts)
    parts.push_back(std::string(what) + " (" + std::to_string(count) +
                    (count == 1 ? " tensor)" : " tensors)"));
  return parts;
}

KeyMapping map_keys(std::span<const std::string> keys, const std::string& subject) {
  KeyMapping mapping;
  std::map<std::string_view, std::string_view> models;  // prefix -> a key that has it
  for (const Layout& layout : layouts) {
    for (const std::string& key : keys)
      if (const auto prefix = prefix_of(layout, key)) models.emplace(*prefix, key);
    if (models.empty()) continue;
    mapping.layout = &layout;
    break;
  }
  if (models.empty()) refuse(keys, subject);
  if (models.size() > 1) {
    throw Error(ErrorCode::unsupported_format,
                "holds more than one model: " + shown_key(models.begin()->second) + " and " +
                    shown_key(std::next(models.begin())->second),
                subject, "save the one that is wanted by itself");
  }
  mapping.prefix = models.begin()->first;
  mapping.stripped = parts_of(mapping.prefix);
  if (mapping.stripped.size() > kMostWrappers) refuse(keys, subject);
  mapping.head_prefix = mapping.prefix;
  if (!mapping.layout->native && !mapping.stripped.empty()) {
    const std::string& last = mapping.stripped.back();
    if (std::ranges::find(kOtherModels, last) != kOtherModels.end()) {
      throw Error(
          ErrorCode::unsupported_format,
          "'" + last +
              "' in front of the names is another model's, which this program does not read",
          subject);
    }
    // They are part of the layout.
    if (std::ranges::find(kHuggingFaceModels, last) != kHuggingFaceModels.end())
      mapping.stripped.pop_back();
  }
  const Layout& layout = *mapping.layout;
  const std::string_view prefix = mapping.prefix;
  const bool has_classifier = std::ranges::any_of(keys, [&](std::string_view key) {
    const auto of_head = prefix_of_head(prefix, key);
    return of_head && key.substr(of_head->size()).starts_with("classifier.");
  });
  mapping.pools_mean = layout.classifies_mean && has_classifier;
  mapping.keys.reserve(keys.size());
  for (const std::string_view key : keys) {
    const std::optional<MappedKey> of_model =
        key.starts_with(prefix) ? map_by_rule(layout, key.substr(prefix.size()), has_classifier)
                                : std::nullopt;
    // transformers 5 writes ViT-MSN's blocks without the prefix of its other parts.
    const std::string_view of_msn =
        layout.origin == Origin::hugging_face && prefix.empty() && key.starts_with("vit.")
            ? key.substr(std::string_view("vit.").size())
            : "";
    if (of_model) {
      mapping.keys.push_back(*of_model);
    } else if (const auto what = left_out_below(layout, prefix, key); !what.empty()) {
      mapping.keys.push_back({.target = "", .left_out = what});
    } else if (const auto of_head = prefix_of_head(prefix, key)) {
      mapping.head_prefix = *of_head;
      mapping.keys.push_back(map_key(layout, key.substr(of_head->size()), has_classifier));
    } else if (is_beside(key)) {
      mapping.keys.emplace_back();
    } else if (!of_msn.empty()) {
      mapping.keys.push_back(map_key(layout, of_msn, has_classifier));
    } else if (key.starts_with(prefix)) {
      mapping.keys.push_back(map_key(layout, key.substr(prefix.size()), has_classifier));
    } else {
      throw Error(ErrorCode::unsupported_format,
                  "the model's names begin with '" + mapping.prefix +
                      "', beside it the file holds " + shown_key(key),
                  subject, "save the vision transformer by itself");
    }
  }
  return mapping;
}

std::vector<MappedKey> meanings_of(std::string_view key) {
  std::vector<MappedKey> meanings;
  for (const Layout& layout : layouts) {
    for (std::size_t start = 0; start < key.size();) {
      auto meaning = map_by_rule(layout, key.substr(start), /*has_classifier=*/false);
      if (meaning && !meaning->target.empty()) meanings.push_back(std::move(*meaning));
      const std::size_t dot = key.find('.', start);
      start = dot == std::string_view::npos ? key.size() : dot + 1;
    }
  }
  return meanings;
}

bool is_computed(std::string_view name) {
  constexpr std::array kPatterns{"cls_token",
                                 "dist_token",
                                 "reg_token",
                                 "pos_embed",
                                 "patch_embed.proj.weight",
                                 "patch_embed.proj.bias",
                                 "patch_embed.norm.*",
                                 "blocks.#.pos_embed",
                                 "blocks.#.norm1.*",
                                 "blocks.#.norm2.*",
                                 "blocks.#.attn.*",
                                 "blocks.#.ls1.gamma",
                                 "blocks.#.ls2.gamma",
                                 "blocks.#.mlp.fc1.*",
                                 "blocks.#.mlp.fc2.*",
                                 "blocks.#.mlp.norm.*",
                                 "norm_pre.*",
                                 "norm.*",
                                 "fc_norm.*",
                                 "attn_pool.*",
                                 "exits.*",
                                 "head.weight",
                                 "head.bias",
                                 "head_dist.weight",
                                 "head_dist.bias"};
  return is_of_rotation(name) || std::ranges::any_of(kPatterns, [&](std::string_view pattern) {
           return match(pattern, name).has_value();
         });
}

bool is_of_head(std::string_view name) {
  return name.starts_with("head.") || name.starts_with("head_dist.") ||
         name.starts_with("pre_logits.");
}

bool is_of_exits(std::string_view name) { return name.starts_with("exits."); }

bool is_of_rotation(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{
      "rope.periods", "rope.bands", "rope.t_x", "rope.t_y", "rope.freqs_cos", "rope.freqs_sin"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_layer_table(std::string_view name) { return match("blocks.#.pos_embed", name).has_value(); }

bool is_mechanism_tensor(std::string_view name) {
  const auto inside = match("blocks.#.attn.*", name);
  if (!inside) return false;
  const std::string_view member = inside->rest.substr(0, inside->rest.find('.'));
  return member != "qkv" && member != "proj" && member != "q_norm" && member != "k_norm" &&
         member != "norm";
}

}  // namespace hydrascope::checkpoint
