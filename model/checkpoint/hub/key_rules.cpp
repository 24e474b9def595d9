#include "model/checkpoint/hub/key_rules.h"

#include <array>

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
constexpr unsigned kTorchvision = 1U << 10U;
constexpr unsigned kTimm = kTimmItself | kDinoV3;
constexpr unsigned kHfViT = kHf4 | kHf5;
constexpr unsigned kHfDinoV3 = kHfGatedDinoV3 | kHfPlainDinoV3;
constexpr unsigned kHf = kHfViT | kHfDinoV2 | kHfDinoV3;
constexpr unsigned kHfTowers = kHfClip | kHfSiglip;

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
    Rule{kTimm, "shared_rel_pos.relative_position_index", ""},
    Rule{kTimm, "shared_rel_pos.rel_coords_log", ""},
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
    // BEiT's and, in timm, vit_srelpos_*'s.
    Rule{kTimm, "rel_pos_bias.*", "shared_rel_pos.*"},
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
    Rule{kHf4, "encoder.relative_position_bias.relative_position_index", ""},
    Rule{kHf4, "encoder.relative_position_bias.*", "shared_rel_pos.*"},

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
    // tanh(dense(class token)).
    LeftOut{kHfViT, "pooler.dense.*", "transformers' pooler"},
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

}  // namespace

constinit const std::span<const Layout> layouts = kLayouts;
constinit const std::span<const Rule> rules = kRules;
constinit const std::span<const LeftOut> parts_left_out = kLeftOut;

}  // namespace hydrascope::checkpoint
