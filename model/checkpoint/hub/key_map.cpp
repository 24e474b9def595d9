#include "model/checkpoint/hub/key_map.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <iterator>

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

/// `#` stands for a layer's number, a `*` at the end for whatever follows.
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
    // EVA's and DINOv3's biases of q and v; keys have none.
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
    // What timm computes from the configuration, in files of its earlier versions.
    Rule{kTimm, "blocks.#.attn.rel_pos.relative_position_index", ""},
    Rule{kTimm, "blocks.#.attn.rel_pos.rel_coords_log", ""},
    Rule{kTimm, "rope.periods", ""},
    Rule{kTimm, "rope.bands", ""},
    Rule{kTimm, "rope.t_x", ""},
    Rule{kTimm, "rope.t_y", ""},
    Rule{kTimm, "head.fc_cls.*", "head.*"},
    Rule{kTimm, "pre_logits.*", ""},
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

constexpr std::array<std::string_view, 4> kWrappers{"module.", "_orig_mod.", "model.", "backbone."};
constexpr std::array<std::string_view, 2> kHuggingFaceModels{"vit.", "deit."};
/// Names of the classifier, which wrappers leave outside.
constexpr std::array<std::string_view, 5> kHeads{"head", "head_dist", "classifier",
                                                 "cls_classifier", "distillation_classifier"};
/// How many wrappers around wrappers are taken off at most.
constexpr std::size_t kMostWrappers = 8;

bool is_head(std::string_view key) {
  return std::ranges::find(kHeads, key.substr(0, key.find('.'))) != kHeads.end();
}

/// What the wildcards of a pattern stood for.
struct Wildcards {
  std::string_view layer;  ///< of '#'
  std::string_view rest;   ///< of '*'
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

/// Removes `prefix` where it stands, if the model's own keys all carry it.
bool strip(std::string_view prefix, std::span<std::string_view> keys, KeyMapping& mapping) {
  bool found = false;
  bool in_head = false;
  for (const std::string_view key : keys) {
    if (key.starts_with(prefix)) {
      const bool of_head = is_head(key.substr(prefix.size()));
      (of_head ? in_head : found) = true;
    } else if (!is_head(key)) {
      return false;
    }
  }
  if (!found) return false;
  for (std::string_view& key : keys) {
    if (key.starts_with(prefix)) key.remove_prefix(prefix.size());
  }
  mapping.prefix += prefix;
  if (in_head) mapping.head_prefix += prefix;
  return true;
}

const Layout* detect(std::span<const std::string_view> keys) {
  for (const Layout& layout : kLayouts) {
    for (const std::string_view key : keys) {
      if (match(layout.marker, key)) return &layout;
    }
  }
  return nullptr;
}

[[noreturn]] void refuse(std::span<const std::string> keys, const std::string& subject) {
  if (keys.empty()) throw Error(ErrorCode::unsupported_format, "holds no tensors", subject);
  constexpr std::size_t kShown = 3;
  constexpr std::size_t kLongest = 80;
  std::string shown;
  for (const std::string& key : keys.first(std::min(keys.size(), kShown)))
    shown += (shown.empty() ? "" : ", ") + key.substr(0, kLongest);
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
    // Of two spellings the first is as good as any; q, k and v are three tensors.
    if (!wildcards || (rule.part == kWhole && !names.empty())) continue;
    names.push_back(front + fill(rule.pattern, *wildcards));
  }
  if (names.empty()) names.push_back(front + std::string(target));
  return names;
}

KeyMapping map_keys(std::span<const std::string> keys, const std::string& subject) {
  KeyMapping mapping;
  std::vector<std::string_view> bare(keys.begin(), keys.end());
  for (bool again = true; again && mapping.stripped.size() < kMostWrappers;) {
    again = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!strip(wrapper, bare, mapping)) continue;
      mapping.stripped.emplace_back(wrapper);
      again = true;
    }
  }
  std::vector<std::string> models;
  for (const std::string_view model : kHuggingFaceModels) {
    if (strip(model, bare, mapping)) models.emplace_back(model);
  }
  mapping.layout = detect(bare);
  if (mapping.layout == nullptr) refuse(keys, subject);
  if (mapping.layout->native) std::ranges::move(models, std::back_inserter(mapping.stripped));
  mapping.keys.reserve(bare.size());
  for (const std::string_view key : bare) mapping.keys.push_back(map_key(*mapping.layout, key));
  return mapping;
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
