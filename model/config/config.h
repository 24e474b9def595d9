// The shape of a vision transformer as a value: everything that decides which tensors a checkpoint
// holds and how the forward pass uses them.
#pragma once

#include "model/config/exit_rule.h"
#include "model/config/words.h"
#include "model/registry/attention_spec.h"
#include "model/registry/positions.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// How the tokens after the last block become one feature vector (timm: `global_pool`): the class
/// token, the mean of the patches, or attention of a learned query over them (Lee et al. 2019, arXiv
/// 1810.00825, as SigLIP has it, arXiv 2303.15343).
enum class Pooling { token, avg, map };
constexpr auto words(Pooling) { return std::to_array<std::string_view>({"token", "avg", "map"}); }

/// The function between the layers of an MLP (timm: `act_layer`): GELU by erf, its form with tanh, or x
/// sigmoid(1.702 x) (Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2).
enum class Activation { gelu, gelu_tanh, quick_gelu };
constexpr auto words(Activation) {
  return std::to_array<std::string_view>({"gelu", "gelu_tanh", "quick_gelu"});
}

/// `--set pos-interp`, the position embedding at another grid than the training grid: bicubic with
/// antialiasing (timm's resample_abs_pos_embed), plain bicubic (Hugging Face's
/// interpolate_pos_encoding), or tiles of the trained table beside each other, for which layers of
/// windows as large as the training grid were trained. Position rules that know the places of their
/// training grid follow it in their own way.
enum class PosInterp { timm, hf, tile };
constexpr auto words(PosInterp) { return std::to_array<std::string_view>({"timm", "hf", "tile"}); }

/// `--set pos-embed`, the term that is added to the patches before the first block: a learned table,
/// the sines and cosines of row and column (arXiv 2010.11929, appendix D.4; as timm's
/// build_sincos2d_pos_embed, at every size by the patch's own row and column), or nothing. With
/// `layers` every later block, too, has a learned table for its input, zeros at first (Al-Rfou et
/// al. 2019, arXiv 1808.04444).
enum class PosEmbed { learned, layers, sincos, none };
constexpr auto words(PosEmbed) {
  return std::to_array<std::string_view>({"learned", "layers", "sincos", "none"});
}
/// Whether a checkpoint has `pos_embed`.
inline bool has_table(PosEmbed embedding) {
  return embedding == PosEmbed::learned || embedding == PosEmbed::layers;
}

/// The way in which a block's branches join its stream (residual.h): by a sum, into two streams that
/// take turns, or by gates.
enum class Residual { add, reversible, gru };
constexpr auto words(Residual) {
  return std::to_array<std::string_view>({"add", "reversible", "gru"});
}

/// Field names are timm's for fields that timm has. `visit` visits every field once; reading,
/// writing, printing and comparing follow from it.
struct VitConfig {
  std::string arch = "vit";
  std::int64_t img_height = 224;  ///< training size, the size of pos_embed
  std::int64_t img_width = 224;
  std::int64_t patch_size = 16;
  std::int64_t in_chans = 3;
  std::int64_t num_classes = 1000;  ///< 0: a tower without a classifier
  std::int64_t embed_dim = 192;
  std::int64_t depth = 12;
  std::int64_t num_heads = 3;
  double mlp_ratio = 4.0;
  bool swiglu_mlp = false;  ///< gated MLPs (Shazeer 2020, arXiv 2002.05202) in place of GELU's
  bool scale_mlp = false;   ///< a norm before an MLP's last layer (EVA-02, arXiv 2303.11331)
  Activation act = Activation::gelu;  ///< of MLPs that are not gated
  bool scale_attn = false;            ///< a norm before attention's last layer (arXiv 2210.06423)
  bool post_norm =
      false;  ///< x + norm(branch(x)) in place of x + branch(norm(x)) (arXiv 2111.09883)
  bool patch_bias = true;  ///< the embedding of patches has a bias
  bool patch_norm =
      false;              ///< a norm of the patches before positions join (AIMv2, arXiv 2411.14402)
  bool norm_pre = false;  ///< a norm before the first block (CLIP, arXiv 2103.00020)
  bool final_norm = true;  ///< a norm after the last block, before or after pooling
  bool rms_norm = false;   ///< all norms are RMSNorm (arXiv 1910.07467) in place of LayerNorm
  bool proj_bias = true;   ///< attention's last layer and both of an MLP have biases
  bool qkv_bias = true;
  bool class_token = true;
  bool distilled = false;       ///< dist_token and head_dist (DeiT, arXiv 2012.12877)
  std::int64_t reg_tokens = 0;  ///< registers (arXiv 2309.16588)
  bool no_embed_class =
      false;                 ///< pos_embed holds patches only; prefix tokens join after it is added
  bool layer_scale = false;  ///< blocks.i.ls1/ls2.gamma (CaiT, arXiv 2103.17239)
  double init_values = 1e-5;  ///< LayerScale's first value
  Pooling global_pool = Pooling::token;
  std::int64_t pool_heads = 0;  ///< of attention pooling; 0: num_heads
  bool pool_prefix = false;     ///< attention pooling sees prefix tokens, too
  bool fc_norm = false;  ///< normalise after pooling instead of before (timm: with global_pool avg)
  double layer_norm_eps = 1e-6;
  PosInterp pos_interp = PosInterp::timm;
  PosEmbed pos_embed = PosEmbed::learned;
  bool overview = false;  ///< larger pictures bring a reduced copy of themselves, see token_grid
  std::vector<AttentionSpec> attention;  ///< one per layer; empty = softmax everywhere
  std::vector<PositionSpec> rel_pos;     ///< one per layer; empty = no rule anywhere
  /// Layers behind which a picture may leave, ascending, without the last; see class_branch.h.
  std::vector<std::int64_t> exits;
  bool coarse_exits = false;  ///< exits have no weights of their own; see coarse_exit.h
  ExitRule exit_rule = ExitRule::margin;
  double exit_threshold = 1;  ///< no score is above 1: no picture leaves
  Residual residual = Residual::add;
  /// Layer l computes with block l mod share_blocks (Dehghani et al. 2019, arXiv 1807.03819); 0: every layer
  /// has a block of its own.
  std::int64_t share_blocks = 0;
  /// Every pass through the shared blocks begins with the sines and cosines of its number, `step_embedding`.
  bool step_embed = false;
  bool halting = false;     ///< tokens leave when their scores say so, see halting.h
  double gate_scale = 10;   ///< a layer's halting score is sigmoid(gate_scale x_0 - gate_center)
  double gate_center = 30;  ///< large: no token leaves

  /// Calls `visitor(name, field)` for every field, in the order of the file format.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("arch", self.arch);
    visitor("img_height", self.img_height);
    visitor("img_width", self.img_width);
    visitor("patch_size", self.patch_size);
    visitor("in_chans", self.in_chans);
    visitor("num_classes", self.num_classes);
    visitor("embed_dim", self.embed_dim);
    visitor("depth", self.depth);
    visitor("num_heads", self.num_heads);
    visitor("mlp_ratio", self.mlp_ratio);
    visitor("qkv_bias", self.qkv_bias);
    visitor("class_token", self.class_token);
    visitor("distilled", self.distilled);
    visitor("reg_tokens", self.reg_tokens);
    visitor("no_embed_class", self.no_embed_class);
    visitor("layer_scale", self.layer_scale);
    visitor("init_values", self.init_values);
    visitor("global_pool", self.global_pool);
    visitor("fc_norm", self.fc_norm);
    visitor("layer_norm_eps", self.layer_norm_eps);
    visitor("pos_interp", self.pos_interp);
    visitor("overview", self.overview);
    visitor("attention", self.attention);
    visitor("pos_embed", self.pos_embed);
    visitor("rel_pos", self.rel_pos);
    visitor("swiglu_mlp", self.swiglu_mlp);
    visitor("scale_mlp", self.scale_mlp);
    visitor("act", self.act);
    visitor("scale_attn", self.scale_attn);
    visitor("post_norm", self.post_norm);
    visitor("patch_bias", self.patch_bias);
    visitor("norm_pre", self.norm_pre);
    visitor("final_norm", self.final_norm);
    visitor("pool_heads", self.pool_heads);
    visitor("pool_prefix", self.pool_prefix);
    visitor("patch_norm", self.patch_norm);
    visitor("rms_norm", self.rms_norm);
    visitor("proj_bias", self.proj_bias);
    visitor("exits", self.exits);
    visitor("coarse_exits", self.coarse_exits);
    visitor("exit_rule", self.exit_rule);
    visitor("exit_threshold", self.exit_threshold);
    visitor("residual", self.residual);
    visitor("share_blocks", self.share_blocks);
    visitor("step_embed", self.step_embed);
    visitor("halting", self.halting);
    visitor("gate_scale", self.gate_scale);
    visitor("gate_center", self.gate_center);
  }

  /// The number of blocks that a checkpoint holds,
  [[nodiscard]] std::int64_t num_blocks() const { return share_blocks > 0 ? share_blocks : depth; }
  /// and the block that a layer computes with.
  [[nodiscard]] std::int64_t block_of(std::int64_t layer) const { return layer % num_blocks(); }
  /// The exits with a branch of their own (class_branch.h): coarse ones have none.
  [[nodiscard]] std::vector<std::int64_t> branch_exits() const {
    return coarse_exits ? std::vector<std::int64_t>() : exits;
  }
  /// Whether pictures may leave early.
  [[nodiscard]] bool leaves_early() const { return !exits.empty() && exit_threshold < 1; }
  [[nodiscard]] std::int64_t head_dim() const { return embed_dim / num_heads; }
  /// Heads of attention pooling.
  [[nodiscard]] std::int64_t heads_of_pool() const {
    return pool_heads > 0 ? pool_heads : num_heads;
  }
  /// Prefix tokens that the mean or the attention of pooling leaves out.
  [[nodiscard]] std::int64_t unpooled_tokens() const {
    return global_pool == Pooling::map && pool_prefix ? 0 : num_prefix_tokens();
  }
  /// Width of the input of an MLP's last layer.
  [[nodiscard]] std::int64_t hidden_dim() const {
    return static_cast<std::int64_t>(static_cast<double>(embed_dim) * mlp_ratio);
  }
  /// Number of an MLP's matrices, embed_dim x hidden_dim each.
  [[nodiscard]] std::int64_t mlp_matrices() const { return swiglu_mlp ? 3 : 2; }
  [[nodiscard]] std::int64_t grid_rows() const { return img_height / patch_size; }
  [[nodiscard]] std::int64_t grid_columns() const { return img_width / patch_size; }
  /// Class, distillation and register tokens in front of the patches.
  [[nodiscard]] std::int64_t num_prefix_tokens() const {
    return (class_token ? 1 : 0) + (distilled ? 1 : 0) + reg_tokens;
  }
  [[nodiscard]] TokenGrid training_grid() const {
    return {num_prefix_tokens(), grid_rows(), grid_columns(), 0, 0, reg_tokens};
  }
  /// The tokens of a picture of `rows` x `columns` patches. With `overview`, a picture that is
  /// larger than the training grid in both directions comes a second time, reduced until it just
  /// covers that grid, or until it is four training grids long.
  [[nodiscard]] TokenGrid token_grid(std::int64_t rows, std::int64_t columns) const;
  /// The same for a picture of `height` x `width` pixels, multiples of patch_size.
  [[nodiscard]] TokenGrid token_grid_of_pixels(std::int64_t height, std::int64_t width) const {
    return token_grid(height / patch_size, width / patch_size);
  }
  /// The mechanism of layer `index`.
  [[nodiscard]] AttentionSpec attention_of(std::int64_t index) const;
  /// The position rule of layer `index`, or `kNoRule`.
  [[nodiscard]] PositionSpec rel_pos_of(std::int64_t index) const;

  friend bool operator==(const VitConfig&, const VitConfig&) = default;
};

/// The reason why modules alone compute the network, on any device; empty if plans do.
std::string why_modules_alone(const VitConfig& config);

/// The same network with `steps` passes through its shared blocks, for any number of them. Throws
/// Error(invalid_argument) if it shares none.
void set_steps(VitConfig& config, std::int64_t steps);

/// Throws Error(invalid_argument) that names the field, the expected value and the value found.
void validate(const VitConfig& config);

/// One JSON object, which `config_from_json` reads back. It refuses unknown keys (listing the
/// fields), wrong types and values that `validate` refuses. Missing keys keep their defaults.
std::string to_json(const VitConfig& config, int indent = -1);
VitConfig config_from_json(std::string_view json, const std::string& subject);

/// Lines "field: value" of all fields, for people.
std::string to_text(const VitConfig& config);

}  // namespace hydrascope::model
