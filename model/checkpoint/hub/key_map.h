// Names of tensors in foreign checkpoints -> the names of the modules (timm's). One table of rules;
// the keys of a file show its layout, never a version.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

/// The tensors of a file that make up one tensor of a module.
inline constexpr int kWhole = -1;  ///< one, as it is
inline constexpr int kJoined = 3;  ///< or this many: the rows of q, k and v in this order
inline constexpr int kGated = 2;   ///< or this many: the rows of a gate and of the gated values

/// The step from the file's tensor to the module's, beside the joining of parts.
enum class Form {
  same,
  tokens,                 ///< (D) or (n, D) becomes (1, n, D)
  projection,             ///< a classifier (classes, D) without a bias, which is zero
  transposed_projection,  ///< the same as (D, classes)
  unplaced,     ///< registers without a place in the table of positions, which is zero there
  no_key_bias,  ///< no tensor of the network: it says that the keys' rows of `target` are zero
};

/// The parts of a layout's models, if no configuration says them.
enum class Origin { timm, hugging_face, other };

/// A layout of names.
struct Layout {
  std::string_view name;    ///< "timm", "Hugging Face 4"
  std::string_view marker;  ///< the pattern of a key that this layout has and no earlier one
  /// LayerNorm's eps if no configuration says it: timm's and DeiT's 1e-6, Hugging Face's 1e-12
  /// (`ViTConfig`, `DeiTConfig`), DINOv3's and CLIP's 1e-5.
  double layer_norm_eps = 1e-6;
  Origin origin = Origin::hugging_face;
  bool native = false;  ///< its names are the modules' own, but for a few rules
  bool dinov3 = false;  ///< queries and keys turn as DINOv3's, and there is no table
  /// The activation of all of its models in Hugging Face's words; "": they differ in it.
  std::string_view activation = "gelu";
  /// With a `classifier` the patches' mean before the last norm is classified, and not the token.
  bool classifies_mean = false;
};

/// All layouts that this build reads.
extern const std::span<const Layout> layouts;

/// The meaning of one key of the file.
struct MappedKey {
  std::string target;  ///< "blocks.0.attn.qkv.weight"; "" when inference does not use the tensor
  int part =
      kWhole;  ///< or 0, 1, ..: the rows of q, k or v in `target`, of a gate or the gated values
  int parts = kJoined;  ///< number of parts, unless it is the whole
  Form form = Form::same;
  std::string_view left_out = {};  ///< the part of the file without use here: "the text tower"
};

/// The beginning of relative positions that all blocks share: each gets them as its own.
inline constexpr std::string_view kSharedPositions = "shared_rel_pos.";
/// The beginning of the rows of q, k and v of attention pooling, which the network keeps as q and
/// kv.
inline constexpr std::string_view kPoolingRows = "attn_pool.qkv.";

/// The keys of a file, mapped.
struct KeyMapping {
  const Layout* layout = nullptr;
  std::vector<MappedKey> keys;        ///< one for every key of the file, in its order
  std::vector<std::string> stripped;  ///< "module.", "_orig_mod.", outermost first

  /// The file's spelling of the module's tensor `target`: three names if the layout keeps q, k and
  /// v apart, else one.
  [[nodiscard]] std::vector<std::string> file_names(std::string_view target) const;

  /// "the text tower (149 tensors)", a line each.
  [[nodiscard]] std::vector<std::string> left_out() const;

  std::string prefix;       ///< in front of the names of `layout` ("module.vit.")
  std::string head_prefix;  ///< the same for the classifier's names ("module.")
  bool pools_mean = false;  ///< the layout's `classifies_mean` holds for this file
};

/// Detects the layout and maps every key. The prefix in front of the layout's marker (`module.`,
/// `_orig_mod.`, `timm_model.`, `student.backbone.`) is cut off all keys; the classifier's may have
/// a beginning of it. `vit.`, `vision_model.` and the like are part of a layout and not listed as
/// stripped. Text towers, decoders and the heads of pretraining are left out. Throws
/// Error(unsupported_format) that names some keys of an unknown layout, both prefixes of two
/// models, or a key of another part than the model and its classifier.
KeyMapping map_keys(std::span<const std::string> keys, const std::string& subject);

/// Everything that a key may mean by itself, whatever stands in front of its layout's names: one
/// entry for each layout that has a rule for it.
std::vector<MappedKey> meanings_of(std::string_view key);

/// Whether the network has a part of that name, in the modules' spelling. Mechanism and positions
/// decide about the names inside attention.
bool is_computed(std::string_view name);

/// Whether it belongs to the classifier or to the layer before it (`pre_logits`, not computed).
bool is_of_head(std::string_view name);
/// Whether it belongs to the exits (model/class_branch.h).
bool is_of_exits(std::string_view name);
/// Whether it is a table that timm computes from the settings of rotations.
bool is_of_rotation(std::string_view name);

/// Whether `name` is a parameter that an attention mechanism added to its layer: `blocks.i.attn.*`,
/// but not `qkv`, `proj`, `q_norm`, `k_norm` or `norm`.
bool is_mechanism_tensor(std::string_view name);
/// Whether it is the table of positions of a block's input: `blocks.i.pos_embed`.
bool is_layer_table(std::string_view name);

}  // namespace hydrascope::checkpoint
