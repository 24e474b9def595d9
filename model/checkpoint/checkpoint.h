// A checkpoint file seen as a vision transformer: which configuration its tensors show, and loading
// them into modules with every difference listed at once.
#pragma once

#include "model/checkpoint/formats/weight_file.h"
#include "model/checkpoint/hub/hub_config.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/config/config.h"
#include "model/tensor_source.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {

/// Names of metadata entries in our own files.
inline constexpr std::string_view kSchemaKey = "hydrascope.schema";
inline constexpr std::string_view kConfigKey = "hydrascope.config";
/// A JSON array of the classes' names, where `labels` names no bundled list.
inline constexpr std::string_view kLabelNamesKey = "label_names";

/// What the file holds of one tensor of the modules.
struct NamedTensor {
  std::string name;  ///< the modules' name
  /// One tensor, or three whose rows are joined (q, k, v); of those, one that the file lacks is
  /// null.
  std::vector<const TensorView*> parts;
  /// The shape of the whole; nothing when a part is missing or the parts do not fit together.
  std::optional<std::vector<std::int64_t>> shape;

  [[nodiscard]] bool is_complete() const;
};

/// Which classifier the caller wants.
struct HeadOptions {
  std::optional<std::int64_t> num_classes;  ///< another size than the file's makes a new one
  bool reset = false;                       ///< a new one in any case
  bool may_be_random = false;  ///< the caller trains or writes the model, and answers nothing
};

/// A way out where a classifier is missing or of another size: answers of a new one are random.
inline const char* new_head_hint(const HeadOptions& head) {
  return head.may_be_random ? "`num_classes` N or `reset_head` makes a new classifier"
                            : "a classifier has to be learned first: `hydrascope train` does that";
}

/// What loading did besides copying.
struct LoadReport {
  /// Tensors of the model that keep their initialisation: what a mechanism added to its layer, and
  /// a new classifier.
  std::vector<std::string> initialised;
  /// Tensors of the file, by its own names, that belong to mechanisms which the model does not use,
  /// to a classifier that is replaced, or a table of positions where the model has another kind.
  std::vector<std::string> unused;
};

/// A load that is checked and not yet done.
class Loading {
 public:
  [[nodiscard]] const LoadReport& report() const noexcept { return report_; }
  /// The file's tensors by the modules' names, but for what is initialised; the checkpoint must
  /// outlive it. Pages of the file are given back as soon as a tensor is no longer used.
  [[nodiscard]] model::TensorSource source() const;
  /// Copies a block's tensors.
  void copy_block(std::int64_t layer) const;
  /// Those that are no block's.
  void copy_rest() const;

 private:
  friend class Checkpoint;
  template <class Chosen>
  void copy_if(Chosen chosen) const;
  LoadReport report_;
  /// What is loaded, and where to.
  std::map<std::string, std::pair<const NamedTensor*, at::Tensor>> copies_;
};

class Checkpoint {
 public:
  Checkpoint() = default;
  /// Maps the names and reads the configuration beside the file. Throws what `check_is_model`,
  /// `map_keys` and `read_hub_config` throw, and Error(failed) when two tensors stand for one.
  explicit Checkpoint(WeightFile file);
  static Checkpoint open(const std::filesystem::path& path, const WeightFileOptions& options = {});

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return contents_.file(); }
  [[nodiscard]] const std::string& format() const noexcept { return contents_.format(); }
  /// Which entry of a torch file the weights came from; "" for the file itself.
  [[nodiscard]] const std::string& entry() const noexcept { return contents_.entry(); }
  [[nodiscard]] const Metadata& metadata() const noexcept { return contents_.metadata(); }
  /// "" when the entry is absent.
  [[nodiscard]] std::string metadata(std::string_view key) const;
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept {
    return contents_.tensors();
  }
  /// Written by this program: its metadata win over a configuration beside it.
  [[nodiscard]] bool is_own() const { return metadata().contains(std::string(kSchemaKey)); }
  /// The layout of names that was detected ("timm").
  [[nodiscard]] std::string_view layout() const noexcept { return mapping_.layout->name; }
  /// Prefixes that were stripped from the names ("module."), outermost first.
  [[nodiscard]] const std::vector<std::string>& stripped() const noexcept {
    return mapping_.stripped;
  }
  /// The configuration beside the file; of kind `none` when there is none, or none that fits.
  [[nodiscard]] const HubConfig& hub() const noexcept { return hub_; }
  /// Names of the classes, the lines of a label file, as metadata or the configuration beside the
  /// file spell them out; "" when they do not.
  [[nodiscard]] std::string label_lines() const;
  /// What a user should know of how the file was read, a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// The tensors by the modules' names; what inference does not use is left out.
  [[nodiscard]] const std::vector<NamedTensor>& named() const noexcept { return named_; }
  /// nullptr when the file holds nothing of it.
  [[nodiscard]] const NamedTensor* find(std::string_view name) const;

  /// The configuration: what metadata says (`hydrascope.config`, or `arch` and `attention`), else
  /// what the configuration beside the file says, corrected by what the shapes prove. No shape
  /// shows the number of heads: where nothing says it, `model::usual_num_heads` does, with a note.
  /// Throws Error(failed) when the shapes fit no vision transformer or the number of heads is not
  /// known, Error(invalid_argument) when the configuration beside the file contradicts the shapes,
  /// Error(unsupported_format) for parts, or an architecture, that this program does not compute or know.
  [[nodiscard]] model::VitConfig deduce_config(const HeadOptions& head = {}) const;

  /// Gives `config`, of an architecture that the user named, what the name does not settle: the
  /// number of classes, LayerNorm's eps, whether the mean of the tokens is classified, and the
  /// attention of the layers. A note that heads are assumed goes. Throws Error(invalid_argument) where the
  /// file or the configuration beside it says another number of heads.
  void complete(model::VitConfig& config, const HeadOptions& head = {});

  /// Copies every tensor into `model` (float dtypes are converted). Parameters inside attention
  /// (`is_mechanism_tensor`) may be missing on either side in layers whose attention, or positions, are
  /// others than the file's; the head may with `head`. Throws
  /// one Error(failed) that lists all other missing, unexpected and mismatched tensors together, by
  /// the file's own names.
  LoadReport load_into(model::VisionTransformerImpl& model, const HeadOptions& head = {}) const;
  /// The same in parts; the checkpoint and the model must outlive it.
  [[nodiscard]] Loading start_loading(model::VisionTransformerImpl& model,
                                      const HeadOptions& head = {}) const;

 private:
  void name_tensors();
  /// Gives blocks their parts of a tensor of all of them: timm's rope.freqs (2, depth, H, d / 2).
  void share_out(const TensorView& of_all, std::map<std::string, NamedTensor>& named);
  /// In our own files the metadata win over the configuration beside them, which is left out where it contradicts them.
  void settle_hub();
  void add_notes();
  /// Assumptions about facts that no tensor shows, and claims of a configuration that the tensors contradict.
  void note_assumptions();
  [[nodiscard]] std::int64_t count_blocks() const;
  /// Throws Error(unsupported_format) that names tensors which no part of the network has.
  void refuse_foreign_parts(bool new_head) const;
  /// Attention, positions and table as the file has them, of `depth` layers.
  [[nodiscard]] model::VitConfig stored_layers(std::int64_t depth) const;
  /// What `hydrascope.config` in the metadata of our own files says.
  [[nodiscard]] std::optional<model::VitConfig> own_config() const;
  /// The configuration beside files that are not ours; nullptr without one.
  [[nodiscard]] const HubConfig* hub_of_others() const;
  /// The name of the architecture that the configuration beside the file or the metadata give.
  [[nodiscard]] std::string architecture_name() const;
  /// What those, or the configuration in the metadata, say of a model of that width.
  [[nodiscard]] std::optional<std::int64_t> said_num_heads(std::int64_t embed_dim) const;
  /// Of timm's files nothing, unless a configuration says it.
  [[nodiscard]] std::optional<double> said_layer_norm_eps() const;
  [[nodiscard]] std::vector<model::AttentionSpec> stored_attention(std::int64_t depth) const;
  /// Takes over what the tensors show of positions: a learned table, the parameters of a rule.
  void deduce_positions(model::VitConfig& config) const;
  [[nodiscard]] std::int64_t num_classes(const HeadOptions& head,
                                         std::optional<std::int64_t> said) const;

  WeightFile contents_;
  KeyMapping mapping_;
  HubConfig hub_;
  std::deque<TensorView> derived_;  ///< parts of tensors of the file, and zeros for what it lacks
  std::vector<std::byte> zeros_;
  std::vector<NamedTensor> named_;  ///< sorted by name
  std::vector<std::string> notes_;
  std::string assumptions_;  ///< the note of them
  std::optional<std::vector<model::PositionSpec>>
      named_positions_;  ///< of the architecture that the user named
};

/// Writes the model's tensors as `dtype` (F32, F16 or BF16) with `metadata` and what describes the
/// model (format, schema, config, arch, attention, img_size, num_classes, created_by).
void save_checkpoint(const std::filesystem::path& file, const model::VisionTransformerImpl& model,
                     Dtype dtype, Metadata metadata);

/// The same of `model` after `source.load_into(model)`: with no `dtype`, tensors that came out of
/// `source` keep their dtype and their bits.
void convert_checkpoint(const std::filesystem::path& file, const Checkpoint& source,
                        const model::VisionTransformerImpl& model, const LoadReport& report,
                        std::optional<Dtype> dtype, Metadata metadata);

}  // namespace hydrascope::checkpoint
