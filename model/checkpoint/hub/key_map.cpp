#include "model/checkpoint/hub/key_map.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

namespace hydrascope::checkpoint {
namespace {

constexpr double kViTsEps = 1e-12;  // transformers' ViTConfig
constexpr double kTimmsEps = 1e-6;
constexpr double kClipsEps = 1e-5;

// The first whose marker is there counts.
constexpr std::array kLayouts{
    // facebookresearch/dinov3: its names are timm's but for a few.
    Layout{"DINOv3", "rope_embed.periods", 1e-5, Origin::other, true, true},
    // timm, facebookresearch/deit, dino and dinov2, EasyCV (whose Hydra models say `backbone.` in front).
    Layout{"timm", "patch_embed.proj.weight", kTimmsEps, Origin::timm, true},
    Layout{"Hugging Face 4", "encoder.layer.#.layernorm_before.weight", kViTsEps},
    Layout{"Hugging Face 5", "layers.#.layernorm_before.weight", kViTsEps},
    Layout{"Hugging Face DINOv2", "encoder.layer.#.layer_scale1.lambda1", kTimmsEps},
    Layout{"Hugging Face DINOv3, gated", "layer.#.mlp.gate_proj.weight", 1e-5, Origin::hugging_face,
           false, true},
    Layout{"Hugging Face DINOv3", "layer.#.layer_scale1.lambda1", 1e-5, Origin::hugging_face, false,
           true},
    Layout{"Hugging Face CLIP", "embeddings.class_embedding", kClipsEps, Origin::hugging_face,
           false, false, "", true},
    Layout{"Hugging Face SigLIP", "embeddings.patch_embedding.weight", kTimmsEps,
           Origin::hugging_face, false, false, "gelu_pytorch_tanh"},
    // openai/CLIP and mlfoundations/open_clip.
    Layout{"CLIP", "ln_pre.weight", kClipsEps, Origin::other, false, false, ""},
    Layout{"torchvision", "encoder.layers.encoder_layer_#.ln_1.weight", kTimmsEps, Origin::other},
};
// Bits: a rule may belong to several layouts.
constexpr unsigned kDinoV3 = 1U << 0U;
constexpr unsigned kTimmItself = 1U << 1U;
constexpr unsigned kHf4 = 1U << 2U;
constexpr unsigned kHf5 = 1U << 3U;
constexpr unsigned kHfDinoV2 = 1U << 4U;
constexpr unsigned kHfGatedDinoV3 = 1U << 5U;
constexpr unsigned kHfPlainDinoV3 = 1U << 6U;
constexpr unsigned kHfClip = 1U << 7U;
constexpr unsigned kHfSiglip = 1U << 8U;
constexpr unsigned kClip = 1U << 9U;
constexpr unsigned kTorchvision = 1U << 10U;
constexpr unsigned kTimm = kTimmItself | kDinoV3;
constexpr unsigned kHfViT = kHf4 | kHf5;
constexpr unsigned kHfDinoV3 = kHfGatedDinoV3 | kHfPlainDinoV3;
constexpr unsigned kHf = kHfViT | kHfDinoV2 | kHfDinoV3;
constexpr unsigned kHfTowers = kHfClip | kHfSiglip;

/// The files in which a rule holds.
enum class With { any, classifier, no_classifier };

/// `#` stands for a layer's number, a `*` at the end for any rest.
struct Rule {
  unsigned layouts;
  std::string_view pattern;
  std::string_view target;  ///< "" = not used for inference
  int part = kWhole;
  int parts = kJoined;
  Form form = Form::same;
  With with = With::any;
};

/// A rule whose tensor takes another form.
constexpr Rule formed(unsigned layouts, std::string_view pattern, std::string_view target,
                      Form form) {
  return {layouts, pattern, target, kWhole, kJoined, form};
}

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
    // open_clip's projection of a tower of timm's.
    formed(kTimm, "head.proj.weight", "head.weight", Form::projection),
    // DINOv2's and DINOv3's own repositories; the gate's rows come first.
    formed(kTimm, "register_tokens", "reg_token", Form::unplaced),
    Rule{kTimm, "blocks.#.mlp.w12.*", "blocks.#.mlp.fc1.*"},
    // DINOv3 and EVA-02.
    Rule{kTimm, "blocks.#.mlp.w1.*", "blocks.#.mlp.fc1.*", 0, kGated},
    Rule{kTimm, "blocks.#.mlp.w2.*", "blocks.#.mlp.fc1.*", 1, kGated},
    Rule{kTimm, "blocks.#.mlp.w3.*", "blocks.#.mlp.fc2.*"},
    Rule{kTimm, "blocks.#.mlp.ffn_ln.*", "blocks.#.mlp.norm.*"},
    Rule{kTimm, "blocks.#.attn.inner_attn_ln.*", "blocks.#.attn.norm.*"},
    // Beside the same tables of the whole.
    Rule{kTimm, "blocks.#.attn.rope.freqs_cos", ""},
    Rule{kTimm, "blocks.#.attn.rope.freqs_sin", ""},
    Rule{kTimm, "rel_pos_bias.relative_position_index", ""},
    Rule{kDinoV3, "storage_tokens", "reg_token"},
    Rule{kDinoV3, "rope_embed.periods", ""},
    formed(kDinoV3, "blocks.#.attn.qkv.bias_mask", "blocks.#.attn.qkv.bias", Form::no_key_bias),

    Rule{kHf, "embeddings.cls_token", "cls_token"},
    Rule{kHf, "embeddings.mask_token", ""},
    Rule{kHf, "classifier.*", "head.*"},
    Rule{kHfViT | kHfDinoV2, "embeddings.position_embeddings", "pos_embed"},
    Rule{kHfViT | kHfDinoV2, "embeddings.patch_embeddings.projection.*", "patch_embed.proj.*"},
    Rule{kHfViT | kHfDinoV2, "layernorm.*", "norm.*"},
    Rule{kHfViT, "embeddings.distillation_token", "dist_token"},
    Rule{kHfViT, "cls_classifier.*", "head.*"},
    Rule{kHfViT, "distillation_classifier.*", "head_dist.*"},
    Rule{kHfViT, "pooler.dense.*", ""},
    // BEiT's and data2vec's.
    Rule{kHfViT, "pooler.layernorm.*", "fc_norm.*"},

    Rule{kHf4, "encoder.layer.#.layernorm_before.*", "blocks.#.norm1.*"},
    Rule{kHf4 | kHfDinoV2, "encoder.layer.#.attention.attention.query.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHf4 | kHfDinoV2, "encoder.layer.#.attention.attention.key.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHf4 | kHfDinoV2, "encoder.layer.#.attention.attention.value.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHf4 | kHfDinoV2, "encoder.layer.#.attention.output.dense.*", "blocks.#.attn.proj.*"},
    Rule{kHf4, "encoder.layer.#.layernorm_after.*", "blocks.#.norm2.*"},
    Rule{kHf4, "encoder.layer.#.intermediate.dense.*", "blocks.#.mlp.fc1.*"},
    Rule{kHf4, "encoder.layer.#.output.dense.*", "blocks.#.mlp.fc2.*"},
    Rule{kHf4, "encoder.layer.#.lambda_1", "blocks.#.ls1.gamma"},
    Rule{kHf4, "encoder.layer.#.lambda_2", "blocks.#.ls2.gamma"},
    Rule{kHf4,
         "encoder.layer.#.attention.attention.relative_position_bias.relative_position_bias_table",
         "blocks.#.attn.rel_pos.relative_position_bias_table"},
    // Files of earlier versions have the index too.
    Rule{kHf4, "encoder.layer.#.attention.attention.relative_position_bias.relative_position_index",
         ""},
    Rule{kHf4, "encoder.relative_position_bias.relative_position_bias_table", kSharedTable},
    Rule{kHf4, "encoder.relative_position_bias.relative_position_index", ""},

    Rule{kHf5, "layers.#.layernorm_before.*", "blocks.#.norm1.*"},
    Rule{kHf5, "layers.#.attention.q_proj.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHf5, "layers.#.attention.k_proj.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHf5, "layers.#.attention.v_proj.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHf5, "layers.#.attention.o_proj.*", "blocks.#.attn.proj.*"},
    Rule{kHf5, "layers.#.layernorm_after.*", "blocks.#.norm2.*"},
    Rule{kHf5, "layers.#.mlp.fc1.*", "blocks.#.mlp.fc1.*"},
    Rule{kHf5, "layers.#.mlp.fc2.*", "blocks.#.mlp.fc2.*"},

    formed(kHfDinoV2, "embeddings.register_tokens", "reg_token", Form::unplaced),
    Rule{kHfDinoV2, "encoder.layer.#.norm1.*", "blocks.#.norm1.*"},
    Rule{kHfDinoV2, "encoder.layer.#.norm2.*", "blocks.#.norm2.*"},
    Rule{kHfDinoV2, "encoder.layer.#.layer_scale1.lambda1", "blocks.#.ls1.gamma"},
    Rule{kHfDinoV2, "encoder.layer.#.layer_scale2.lambda1", "blocks.#.ls2.gamma"},
    Rule{kHfDinoV2, "encoder.layer.#.mlp.weights_in.*", "blocks.#.mlp.fc1.*"},
    Rule{kHfDinoV2, "encoder.layer.#.mlp.weights_out.*", "blocks.#.mlp.fc2.*"},
    Rule{kHfDinoV2, "encoder.layer.#.mlp.*", "blocks.#.mlp.*"},

    Rule{kHfDinoV3, "embeddings.register_tokens", "reg_token"},
    Rule{kHfDinoV3, "embeddings.patch_embeddings.*", "patch_embed.proj.*"},
    Rule{kHfDinoV3, "norm.*", "norm.*"},
    Rule{kHfDinoV3, "layer.#.norm1.*", "blocks.#.norm1.*"},
    Rule{kHfDinoV3, "layer.#.norm2.*", "blocks.#.norm2.*"},
    Rule{kHfDinoV3, "layer.#.attention.q_proj.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHfDinoV3, "layer.#.attention.k_proj.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHfDinoV3, "layer.#.attention.v_proj.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHfDinoV3, "layer.#.attention.o_proj.*", "blocks.#.attn.proj.*"},
    Rule{kHfDinoV3, "layer.#.layer_scale1.lambda1", "blocks.#.ls1.gamma"},
    Rule{kHfDinoV3, "layer.#.layer_scale2.lambda1", "blocks.#.ls2.gamma"},
    Rule{kHfGatedDinoV3, "layer.#.mlp.gate_proj.*", "blocks.#.mlp.fc1.*", 0, kGated},
    Rule{kHfGatedDinoV3, "layer.#.mlp.up_proj.*", "blocks.#.mlp.fc1.*", 1, kGated},
    Rule{kHfPlainDinoV3, "layer.#.mlp.up_proj.*", "blocks.#.mlp.fc1.*"},
    Rule{kHfDinoV3, "layer.#.mlp.down_proj.*", "blocks.#.mlp.fc2.*"},

    formed(kHfClip, "embeddings.class_embedding", "cls_token", Form::tokens),
    formed(kHfTowers, "embeddings.position_embedding.weight", "pos_embed", Form::tokens),
    // Numbers 0, 1, ... in files of earlier versions.
    Rule{kHfTowers, "embeddings.position_ids", ""},
    Rule{kHfTowers, "embeddings.patch_embedding.*", "patch_embed.proj.*"},
    Rule{kHfClip, "pre_layrnorm.*", "norm_pre.*"},
    Rule{kHfTowers, "encoder.layers.#.layer_norm1.*", "blocks.#.norm1.*"},
    Rule{kHfTowers, "encoder.layers.#.self_attn.q_proj.*", "blocks.#.attn.qkv.*", 0},
    Rule{kHfTowers, "encoder.layers.#.self_attn.k_proj.*", "blocks.#.attn.qkv.*", 1},
    Rule{kHfTowers, "encoder.layers.#.self_attn.v_proj.*", "blocks.#.attn.qkv.*", 2},
    Rule{kHfTowers, "encoder.layers.#.self_attn.out_proj.*", "blocks.#.attn.proj.*"},
    Rule{kHfTowers, "encoder.layers.#.layer_norm2.*", "blocks.#.norm2.*"},
    Rule{kHfTowers, "encoder.layers.#.mlp.*", "blocks.#.mlp.*"},
    // CLIPForImageClassification pools the tokens before the last norm.
    Rule{kHfClip, "post_layernorm.*", "", kWhole, kJoined, Form::same, With::classifier},
    Rule{kHfTowers, "post_layernorm.*", "norm.*"},
    formed(kHfClip, "visual_projection.weight", "head.weight", Form::projection),
    Rule{kHfTowers, "classifier.*", "head.*"},
    // SiglipForImageClassification pools by the mean.
    Rule{kHfSiglip, "head.*", "", kWhole, kJoined, Form::same, With::classifier},
    Rule{kHfSiglip, "head.probe", "attn_pool.latent"},
    Rule{kHfSiglip, "head.attention.in_proj_weight", "attn_pool.qkv.weight"},
    Rule{kHfSiglip, "head.attention.in_proj_bias", "attn_pool.qkv.bias"},
    Rule{kHfSiglip, "head.attention.out_proj.*", "attn_pool.proj.*"},
    Rule{kHfSiglip, "head.layernorm.*", "attn_pool.norm.*"},
    Rule{kHfSiglip, "head.mlp.*", "attn_pool.mlp.*"},

    formed(kClip, "class_embedding", "cls_token", Form::tokens),
    formed(kClip, "positional_embedding", "pos_embed", Form::tokens),
    Rule{kClip, "conv1.*", "patch_embed.proj.*"},
    Rule{kClip, "ln_pre.*", "norm_pre.*"},
    Rule{kClip, "ln_post.*", "norm.*"},
    formed(kClip, "proj", "head.weight", Form::transposed_projection),
    Rule{kClip, "transformer.resblocks.#.ln_1.*", "blocks.#.norm1.*"},
    Rule{kClip, "transformer.resblocks.#.ln_2.*", "blocks.#.norm2.*"},
    Rule{kClip, "transformer.resblocks.#.attn.in_proj_weight", "blocks.#.attn.qkv.weight"},
    Rule{kClip, "transformer.resblocks.#.attn.in_proj_bias", "blocks.#.attn.qkv.bias"},
    Rule{kClip, "transformer.resblocks.#.attn.out_proj.*", "blocks.#.attn.proj.*"},
    Rule{kClip, "transformer.resblocks.#.ls_1.gamma", "blocks.#.ls1.gamma"},
    Rule{kClip, "transformer.resblocks.#.ls_2.gamma", "blocks.#.ls2.gamma"},
    Rule{kClip, "transformer.resblocks.#.mlp.c_fc.*", "blocks.#.mlp.fc1.*"},
    Rule{kClip, "transformer.resblocks.#.mlp.c_proj.*", "blocks.#.mlp.fc2.*"},

    Rule{kTorchvision, "class_token", "cls_token"},
    Rule{kTorchvision, "conv_proj.*", "patch_embed.proj.*"},
    Rule{kTorchvision, "encoder.pos_embedding", "pos_embed"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.ln_1.*", "blocks.#.norm1.*"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.ln_2.*", "blocks.#.norm2.*"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.self_attention.in_proj_weight",
         "blocks.#.attn.qkv.weight"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.self_attention.in_proj_bias",
         "blocks.#.attn.qkv.bias"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.self_attention.out_proj.*",
         "blocks.#.attn.proj.*"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.mlp.0.*", "blocks.#.mlp.fc1.*"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.mlp.3.*", "blocks.#.mlp.fc2.*"},
    // The published files have the names of before torchvision 0.13.
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.mlp.linear_1.*", "blocks.#.mlp.fc1.*"},
    Rule{kTorchvision, "encoder.layers.encoder_layer_#.mlp.linear_2.*", "blocks.#.mlp.fc2.*"},
    Rule{kTorchvision, "encoder.ln.*", "norm.*"},
    Rule{kTorchvision, "heads.head.*", "head.*"},
};

/// Parts that a file may hold beside or inside of the model and that no vision tower uses.
struct LeftOut {
  unsigned layouts;
  std::string_view pattern;
  std::string_view what;
};

constexpr unsigned kTowers = kHfTowers | kClip | kTimmItself;
constexpr std::string_view kTextTower = "the text tower";
constexpr std::string_view kDecoder = "the decoder of the pretraining";
constexpr std::string_view kPretrainingHead = "a head of the pretraining";
constexpr std::array kLeftOut{
    LeftOut{kHfTowers, "text_model.*", kTextTower},
    LeftOut{kHfTowers, "text_projection.weight", kTextTower},
    LeftOut{kTowers, "logit_scale", kTextTower},
    LeftOut{kTowers, "logit_bias", kTextTower},
    // open_clip with a text tower of its own class.
    LeftOut{kTowers, "text.*", kTextTower},
    LeftOut{kTowers, "transformer.resblocks.*", kTextTower},
    LeftOut{kTowers, "token_embedding.weight", kTextTower},
    LeftOut{kTowers, "positional_embedding", kTextTower},
    LeftOut{kTowers, "ln_final.*", kTextTower},
    LeftOut{kTowers, "text_projection", kTextTower},
    // Three numbers that OpenAI's files have as tensors.
    LeftOut{kClip, "input_resolution", kTextTower},
    LeftOut{kClip, "context_length", kTextTower},
    LeftOut{kClip, "vocab_size", kTextTower},
    LeftOut{kHf4, "decoder.*", kDecoder},
    LeftOut{kTimm, "decoder_embed.*", kDecoder},
    LeftOut{kTimm, "decoder_blocks.*", kDecoder},
    LeftOut{kTimm, "decoder_norm.*", kDecoder},
    LeftOut{kTimm, "decoder_pred.*", kDecoder},
    LeftOut{kTimm, "decoder_pos_embed", kDecoder},
    LeftOut{kTimm, "head.mlp.#.*", kPretrainingHead},
    LeftOut{kTimm, "head.last_layer.*", kPretrainingHead},
    LeftOut{kTimm, "dino_head.*", kPretrainingHead},
    LeftOut{kTimm, "ibot_head.*", kPretrainingHead},
    LeftOut{kTimm, "lm_head.*", kPretrainingHead},
};

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
  return 1U << static_cast<unsigned>(&layout - kLayouts.data());
}

/// DINOv2's chunks of blocks: `blocks.CHUNK.LAYER.`, where layers are counted through.
std::string without_chunk(std::string_view key) {
  const auto inside = match("blocks.#.#.*", key);
  return inside ? fill("blocks.#.*", *inside) : std::string(key);
}

bool holds(With with, bool has_classifier) {
  return with == With::any || (with == With::classifier) == has_classifier;
}

/// Nothing if no rule has the key.
std::optional<MappedKey> map_by_rule(const Layout& layout, std::string_view key,
                                     bool has_classifier) {
  const std::string name = layout.native ? without_chunk(key) : std::string(key);
  for (const Rule& rule : kRules) {
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
  for (const LeftOut& part : kLeftOut)
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
    // Inside of CLIP's tower nothing is another tower's.
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
