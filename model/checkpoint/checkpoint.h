// A checkpoint file seen as a vision transformer: the configuration that its tensors show, and
// loading them into modules with every difference listed at once.
#pragma once

#include "model/checkpoint/derived_tensors.h"
#include "model/checkpoint/formats/weight_file.h"
#include "model/checkpoint/hub/hub_config.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/config/config.h"
#include "model/vision_transformer.h"
#include "model/weight_table.h"

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

/// The metadata entries of our own files.
inline constexpr std::string_view kSchemaKey = "hydrascope.schema";
inline constexpr std::string_view kSchema = "1";
inline constexpr std::string_view kConfigKey = "hydrascope.config";
/// A JSON array of the classes' names, where `labels` names no bundled list.
inline constexpr std::string_view kLabelNamesKey = "label_names";

/// The file's tensors for one tensor of the modules.
struct NamedTensor {
  std::string name;  ///< the modules' name
  /// One tensor, or three whose rows are joined (q, k, v); null for one of the three that the file
  /// lacks.
  std::vector<const TensorView*> parts;
  /// The shape of the whole; nothing if a part is missing or the parts do not fit together.
  std::optional<std::vector<std::int64_t>> shape;

  [[nodiscard]] bool is_complete() const;
};

/// The classifier that the caller wants.
struct HeadOptions {
  std::optional<std::int64_t> num_classes;  ///< another size than the file's makes a new one
  bool reset = false;                       ///< a new one in any case
  bool may_be_random = false;  ///< the caller trains or writes the model, and answers nothing
};

/// The hint for a classifier that is missing or of another size: a new one answers at random.
inline const char* new_head_hint(const HeadOptions& head) {
  return head.may_be_random ? "`num_classes` N or `reset_head` makes a new classifier"
                            : "a classifier has to be learned first: `hydrascope train` does that";
}

/// The effects of loading besides copying.
struct LoadReport {
  /// Tensors of the model that keep their initialisation: a mechanism's additions to its layer, new
  /// exits, and a new classifier.
  std::vector<std::string> initialised;
  /// Tensors of the file, by its own names, of mechanisms that the model does not use, of a
  /// replaced classifier, or of a table of positions if the model has another kind.
  std::vector<std::string> unused;
};

/// A load that is checked but not yet done.
class Loading {
 public:
  [[nodiscard]] const LoadReport& report() const noexcept { return report_; }
  /// The file's tensors, and the model's own for what is initialised. The checkpoint must outlive
  /// it. Pages of the file are given back as soon as a tensor is no longer used.
  [[nodiscard]] const model::WeightTable& weights() const noexcept { return weights_; }
  [[nodiscard]] model::WeightTable& weights() noexcept { return weights_; }

 private:
  friend class Checkpoint;
  Loading(LoadReport report, model::WeightTable weights)
      : report_(std::move(report)), weights_(std::move(weights)) {}
  LoadReport report_;
  model::WeightTable weights_;
};

class Checkpoint {
 public:
  Checkpoint() = default;
  /// Maps the names and reads the configuration beside the file. Throws as `check_is_model`,
  /// `map_keys` and `read_hub_config` do, Error(failed) when two tensors stand for one, and
  /// Error(unsupported_format) for metadata of our own keys that no version has written.
  explicit Checkpoint(WeightFile file);
  static Checkpoint open(const std::filesystem::path& path, const WeightFileOptions& options = {});

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return contents_.file(); }
  [[nodiscard]] const std::string& format() const noexcept { return contents_.format(); }
  /// The entry of a torch file that holds the weights; "" for the file itself.
  [[nodiscard]] const std::string& entry() const noexcept { return contents_.entry(); }
  [[nodiscard]] const Metadata& metadata() const noexcept { return contents_.metadata(); }
  /// "" when the entry is absent.
  [[nodiscard]] std::string metadata(std::string_view key) const;
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept {
    return contents_.tensors();
  }
  /// Whether this program wrote the file: its metadata then win over a configuration beside it.
  [[nodiscard]] bool is_own() const { return metadata().contains(std::string(kSchemaKey)); }
  /// The layout of names that was detected ("timm").
  [[nodiscard]] std::string_view layout() const noexcept { return mapping_.layout->name; }
  /// Prefixes that were stripped from the names ("module."), outermost first.
  [[nodiscard]] const std::vector<std::string>& stripped() const noexcept {
    return mapping_.stripped;
  }
  /// The configuration beside the file; of kind `none` when there is none, or none that fits.
  [[nodiscard]] const HubConfig& hub() const noexcept { return hub_; }
  /// Names of the classes, the lines of a label file, from the metadata or the configuration beside
  /// the file; "" without names.
  [[nodiscard]] std::string label_lines() const;
  /// Notes for a user on the reading of the file, a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// The tensors by the modules' names, without the tensors that inference does not use.
  [[nodiscard]] const std::vector<NamedTensor>& named() const noexcept { return named_; }
  /// Whether the classifier is a projection of CLIP's, whose outputs are compared with texts' vectors.
  [[nodiscard]] bool has_projection() const;
  /// nullptr when the file holds no part of it.
  [[nodiscard]] const NamedTensor* find(std::string_view name) const;

  /// The configuration: the metadata's (`hydrascope.config`, or `arch` and `attention`), else the
  /// configuration beside the file, corrected by the tensors' shapes. No shape shows the number of
  /// heads: if nothing says it, `model::usual_num_heads` does, with a note. Throws Error(failed)
  /// when the shapes fit no vision transformer or the number of heads is not known,
  /// Error(invalid_argument) when the configuration beside the file contradicts the shapes,
  /// Error(unsupported_format) for an unknown architecture or a part that this program does not
  /// compute.
  [[nodiscard]] model::VitConfig deduce_config(const HeadOptions& head = {}) const;

  /// Completes `config`, of an architecture that the user named, by the values that the name leaves
  /// open: the number of classes, LayerNorm's eps, pooling by the mean of the tokens, and the
  /// attention of the layers. Drops the note that heads are assumed. Throws Error(invalid_argument)
  /// if the file or the configuration beside it says another number of heads.
  void complete(model::VitConfig& config, const HeadOptions& head = {});

  /// Copies every tensor into `model` (float dtypes are converted). Parameters inside attention
  /// (`is_mechanism_tensor`) may be missing on either side in layers whose attention or positions
  /// differ from the file's, and parameters of exits (`is_of_exits`) if the exits differ; `head` says whether
  /// the classifier may. Throws one Error(failed) that
  /// lists all other missing, unexpected and mismatched tensors together, by the file's own names.
  LoadReport load_into(model::VisionTransformerImpl& model, const HeadOptions& head = {}) const;
  /// The same in parts; the checkpoint and the model must outlive it.
  [[nodiscard]] Loading start_loading(model::VisionTransformerImpl& model,
                                      const HeadOptions& head = {}) const;

 private:
  void name_tensors();
  /// Reshapes, cuts and completes tensors that the file keeps in another form than the modules.
  void reform(std::map<std::string, NamedTensor>& named);
  /// Cuts a tensor of all blocks into the blocks' parts: timm's rope.freqs (2, depth, H, d / 2).
  void share_out(const TensorView& of_all, std::map<std::string, NamedTensor>& named);
  /// In our own files the metadata win: a contradicting configuration beside them is dropped.
  void settle_hub();
  /// Notes assumptions about facts that no tensor shows, and claims that the tensors contradict.
  void note_assumptions();
  [[nodiscard]] std::int64_t count_blocks() const;
  /// The base of the periods that DINOv3's authors keep in the file (rope_embed.periods: base^(n / count)); 100
  /// without them. Throws Error(unsupported_format) for other periods.
  [[nodiscard]] double stored_base() const;
  /// Whether tables of positions are resampled as most models of transformers do it.
  [[nodiscard]] bool resamples_as_hugging_face() const;
  /// Throws Error(unsupported_format) that names the tensors which no part of the network has.
  void refuse_foreign_parts(bool new_head) const;
  /// Attention, positions and table of the file's `depth` layers.
  [[nodiscard]] model::VitConfig stored_layers(std::int64_t depth) const;
  /// The configuration in our own files' metadata, `hydrascope.config`.
  [[nodiscard]] std::optional<model::VitConfig> own_config() const;
  /// The configuration beside files of others; nullptr without one.
  [[nodiscard]] const HubConfig* hub_of_others() const;
  /// The architecture's name in the configuration beside the file or in the metadata.
  [[nodiscard]] std::string architecture_name() const;
  /// The number of heads of that architecture, or of the metadata's configuration, at this width.
  [[nodiscard]] std::optional<std::int64_t> said_num_heads(std::int64_t embed_dim) const;
  /// LayerNorm's eps; nothing for timm's files unless a configuration says it.
  [[nodiscard]] std::optional<double> said_layer_norm_eps() const;
  /// Sets the activation that the configuration beside the file or the layout says.
  void read_activation(model::VitConfig& config) const;
  [[nodiscard]] std::vector<model::AttentionSpec> stored_attention(std::int64_t depth) const;
  /// Takes over the positions that the tensors show: a learned table, the parameters of a rule.
  void deduce_positions(model::VitConfig& config) const;
  [[nodiscard]] std::int64_t num_classes(const HeadOptions& head,
                                         std::optional<std::int64_t> said) const;

  WeightFile contents_;
  KeyMapping mapping_;
  HubConfig hub_;
  DerivedTensors derived_;  ///< parts and other forms of the file's tensors, zeros for absent ones
  std::vector<NamedTensor> named_;  ///< sorted by name
  std::vector<std::string> notes_;
  std::string assumptions_;  ///< the note on assumptions
  std::optional<std::vector<model::PositionSpec>>
      named_positions_;  ///< of the architecture named by the user
};

/// Writes the model's tensors as `dtype` (F32, F16 or BF16) with `metadata` and a description of
/// the model (format, schema, config, arch, attention, img_size, num_classes, created_by).
void save_checkpoint(const std::filesystem::path& file, const model::VisionTransformerImpl& model,
                     Dtype dtype, Metadata metadata, bool until_stopped = false);
/// The `img_size` of such a file: "224", "224x448" (height x width).
std::string stored_size(const model::VitConfig& config);

/// The same for `model` after `source.load_into(model)`: without a `dtype`, tensors out of `source`
/// keep their dtype and their bits.
void convert_checkpoint(const std::filesystem::path& file, const Checkpoint& source,
                        const model::VisionTransformerImpl& model, const LoadReport& report,
                        std::optional<Dtype> dtype, Metadata metadata);

}  // namespace hydrascope::checkpoint
