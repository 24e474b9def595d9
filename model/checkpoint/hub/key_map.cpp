#include "model/checkpoint/hub/key_map.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace hydrascope::checkpoint {
namespace {

constexpr double kHuggingFaceEps = 1e-12;

constexpr std::array kLayouts{
    // timm, facebookresearch/deit and EasyCV (whose Hydra models say `backbone.` in front).
    Layout{"timm", "patch_embed.proj.weight", 1e-6, true},
    Layout{"Hugging Face 4", "encoder.layer.#.layernorm_before.weight", kHuggingFaceEps},
    Layout{"Hugging Face 5", "layers.#.layernorm_before.weight", kHuggingFaceEps},
};
// Bits: a rule may belong to several layouts.
constexpr unsigned kTimm = 1;
constexpr unsigned kHf4 = 2;
constexpr unsigned kHf5 = 4;
constexpr unsigned kHf = kHf4 | kHf5;

/// `#` stands for a layer's number, a `*` at the end for any rest.
struct Rule {
  unsigned layouts;
  std::string_view pattern;
  std::string_view target;  ///< "" = not used for inference
  int part = kWhole;
  int parts = kJoined;
};

constexpr std::array kRules{
    // LayerScale: `gamma_1` in facebookresearch/deit and EasyCV, `ls1.gamma` in timm.
    Rule{kTimm, "blocks.#.gamma_1", "blocks.#.ls1.gamma"},
    Rule{kTimm, "blocks.#.gamma_2", "blocks.#.ls2.gamma"},
    // EVA's and DINOv3's biases of q and v; k has none.
    Rule{kTimm, "blocks.#.attn.q_bias", "blocks.#.attn.qkv.bias", 0},
    Rule{kTimm, "blocks.#.attn.v_bias", "blocks.#.attn.qkv.bias", 2},
    Rule{kTimm, "blocks.#.attn.q_proj.*", "blocks.#.attn.qkv.*", 0},
    Rule{kTimm, "blocks.#.attn.k_proj.*", "blocks.#.attn.qkv.*", 1},
    Rule{kTimm, "blocks.#.attn.v_proj.*", "blocks.#.attn.qkv.*", 2},
    Rule{kTimm, "blocks.#.mlp.fc1_g.*", "blocks.#.mlp.fc1.*", 0, kGated},
    Rule{kTimm, "blocks.#.mlp.fc1_x.*", "blocks.#.mlp.fc1.*", 1, kGated},
    Rule{kTimm, "blocks.#.attn.relative_position_bias_table",
         "blocks.#.attn.rel_pos.relative_position_bias_table"},
    Rule{kTimm, "blocks.#.attn.relative_position_index", ""},
    // Tensors that timm computes from the configuration, in files of its earlier versions.
    Rule{kTimm, "blocks.#.attn.rel_pos.relative_position_index", ""},
    Rule{kTimm, "blocks.#.attn.rel_pos.rel_coords_log", ""},
    Rule{kTimm, "head.fc_cls.*", "head.*"},
    // Classifiers beside a backbone.
    Rule{kTimm, "fc.*", "head.*"},
    Rule{kTimm, "classifier.*", "head.*"},
    Rule{kTimm, "mask_token", ""},

    Rule{kHf, "embeddings.cls_token", "cls_token"},
    Rule{kHf, "embeddings.distillation_token", "dist_token"},
    Rule{kHf, "embeddings.position_embeddings", "pos_embed"},
    Rule{kHf, "embeddings.patch_embeddings.projection.*", "patch_embed.proj.*"},
    Rule{kHf, "embeddings.mask_token", ""},
    Rule{kHf, "layernorm.*", "norm.*"},
    Rule{kHf, "classifier.*", "head.*"},
    Rule{kHf, "cls_classifier.*", "head.*"},
    Rule{kHf, "distillation_classifier.*", "head_dist.*"},
    Rule{kHf, "pooler.dense.*", ""},

    Rule{kHf4, "encoder.layer.#.layernorm_before.*", "blocks.#.norm1.*"},
    Rule{kHf4, "encoder.layer.#.attention.attention.query.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHf4, "encoder.layer.#.attention.attention.key.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHf4, "encoder.layer.#.attention.attention.value.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHf4, "encoder.layer.#.attention.output.dense.*", "blocks.#.attn.proj.*"},
    Rule{kHf4, "encoder.layer.#.layernorm_after.*", "blocks.#.norm2.*"},
    Rule{kHf4, "encoder.layer.#.intermediate.dense.*", "blocks.#.mlp.fc1.*"},
    Rule{kHf4, "encoder.layer.#.output.dense.*", "blocks.#.mlp.fc2.*"},

    Rule{kHf5, "layers.#.layernorm_before.*", "blocks.#.norm1.*"},
    Rule{kHf5, "layers.#.attention.q_proj.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHf5, "layers.#.attention.k_proj.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHf5, "layers.#.attention.v_proj.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHf5, "layers.#.attention.o_proj.*", "blocks.#.attn.proj.*"},
    Rule{kHf5, "layers.#.layernorm_after.*", "blocks.#.norm2.*"},
    Rule{kHf5, "layers.#.mlp.fc1.*", "blocks.#.mlp.fc1.*"},
    Rule{kHf5, "layers.#.mlp.fc2.*", "blocks.#.mlp.fc2.*"},
};

constexpr std::array<std::string_view, 2> kHuggingFaceModels{"vit.", "deit."};
/// Prefixes of other models of Hugging Face whose blocks have ViT's names.
constexpr std::array<std::string_view, 8> kOtherModels{
    "beit.", "data2vec_vision.", "ijepa.", "audio_spectrogram_transformer.",
    "vilt.", "videomae.",        "vivit.", "dpt."};
/// Names of the classifier, which wrappers leave outside.
constexpr std::array<std::string_view, 6> kHeads{
    "head", "head_dist", "fc", "classifier", "cls_classifier", "distillation_classifier"};
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
  return 1U << static_cast<unsigned>(&layout - kLayouts.data());
}

MappedKey map_key(const Layout& layout, std::string_view key) {
  for (const Rule& rule : kRules) {
    if ((rule.layouts & bit_of(layout)) == 0) continue;
    if (const auto wildcards = match(rule.pattern, key)) {
      return {fill(rule.target, *wildcards), rule.part, rule.parts};
    }
  }
  return {std::string(key)};
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
  for (const Layout& layout : kLayouts)
    known += (known.empty() ? "" : ", ") + std::string(layout.name);
  throw Error(ErrorCode::unsupported_format,
              "tensor names are not those of a known ViT layout (found " + shown + ", ...)",
              subject, "layouts this build reads: " + known);
}

}  // namespace

std::span<const Layout> layouts() { return kLayouts; }

std::vector<std::string> KeyMapping::file_names(std::string_view target) const {
  const std::string& front = is_head(target) ? head_prefix : prefix;
  if (layout->native) return {front + std::string(target)};
  std::vector<std::string> names;
  for (const Rule& rule : kRules) {
    if ((rule.layouts & bit_of(*layout)) == 0 || rule.target.empty()) continue;
    const auto wildcards = match(rule.target, target);
    // Two spellings of a tensor are as good as one another; q, k and v are three tensors.
    if (!wildcards || (rule.part == kWhole && !names.empty())) continue;
    names.push_back(front + fill(rule.pattern, *wildcards));
  }
  if (names.empty()) names.push_back(front + std::string(target));
  return names;
}

KeyMapping map_keys(std::span<const std::string> keys, const std::string& subject) {
  KeyMapping mapping;
  std::map<std::string_view, std::string_view> models;  // prefix -> a key that has it
  for (const Layout& layout : kLayouts) {
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
      throw Error(ErrorCode::unsupported_format,
                  "'" + last +
                      "' in front of the names is another model's: this program reads vit and deit "
                      "of Hugging Face",
                  subject);
    }
    // They are part of the layout.
    if (std::ranges::find(kHuggingFaceModels, last) != kHuggingFaceModels.end())
      mapping.stripped.pop_back();
  }
  mapping.keys.reserve(keys.size());
  for (const std::string_view key : keys) {
    if (const auto of_head = prefix_of_head(mapping.prefix, key)) {
      mapping.head_prefix = *of_head;
      mapping.keys.push_back(map_key(*mapping.layout, key.substr(of_head->size())));
    } else if (is_beside(key)) {
      mapping.keys.emplace_back();
    } else if (key.starts_with(mapping.prefix)) {
      mapping.keys.push_back(map_key(*mapping.layout, key.substr(mapping.prefix.size())));
    } else {
      throw Error(ErrorCode::unsupported_format,
                  "the model's names begin with '" + mapping.prefix +
                      "', beside it the file holds " + shown_key(key),
                  subject, "save the vision transformer by itself");
    }
  }
  return mapping;
}

bool is_computed(std::string_view name) {
  constexpr std::array kPatterns{"cls_token",
                                 "dist_token",
                                 "reg_token",
                                 "pos_embed",
                                 "patch_embed.proj.weight",
                                 "patch_embed.proj.bias",
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

bool is_of_rotation(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames{"rope.periods", "rope.bands", "rope.t_x",
                                                   "rope.t_y"};
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
