// The configuration that timm and Hugging Face put beside weights: `config.json` and, with Hugging
// Face, `preprocessor_config.json`.
#pragma once

#include "model/checkpoint/hub/transform_hints.h"
#include "model/config/config.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

struct HubConfig {
  enum class Kind { none, timm, hugging_face };

  Kind kind = Kind::none;
  std::filesystem::path file;  ///< config.json
  std::string architecture;    ///< timm's name, "" for Hugging Face
  /// Whether the name is unknown, so that tensors alone would have to show the computation.
  bool is_unknown = false;
  /// Whether the name, and no key, says `global_pool`.
  bool pooling_is_of_name = false;
  std::string license;              ///< "" if the file says nothing
  std::vector<std::string> labels;  ///< the classes in order; empty if the file names none
  TransformHints transform;
  std::vector<std::string> notes;

  // Facts that tensors do not show; unset if the file does not say them.
  std::optional<std::int64_t> num_heads;
  std::optional<std::int64_t> num_classes;
  std::optional<std::int64_t> img_height;
  std::optional<std::int64_t> img_width;
  std::optional<double> layer_norm_eps;
  std::optional<model::Pooling> global_pool;
  std::optional<model::Activation> act;
  std::optional<bool> final_norm;
  std::optional<bool> post_norm;
  std::optional<std::int64_t> pool_heads;
  std::optional<bool> pool_prefix;
  std::optional<model::PositionSpec> rotations;  ///< DINOv3's, in every layer
  /// Hugging Face's word for the activation; "" if nothing says it, and for gated MLPs.
  std::string activation;

  /// A key whose fact the tensors show too.
  struct Claim {
    std::string key;
    std::function<std::string(const model::VitConfig&)> shown;
    std::string value;
  };
  std::vector<Claim> claims;
  bool says_act = false;       ///< gated MLPs have another activation than GELU
  bool pads_pictures = false;  ///< timm's dynamic_img_pad
  std::string says_classes;    ///< the key that `num_classes` comes from

  /// Writes into `config` the facts that are set and that no tensor shows.
  void apply_to(model::VitConfig& config) const;
  /// Throws Error(invalid_argument) that names file and key if the file contradicts `config`, which
  /// the tensors have corrected.
  void check(const model::VitConfig& config) const;
  /// The same for the number of rows of the file's classifier, which is kept.
  void check_classes(std::int64_t rows) const;
  /// Throws Error(unsupported_format) for an unknown architecture.
  void check_is_known() const;
};

/// Reads the files of `folder`. The kind is `none` without a config.json, or for a config.json
/// about something else (a note says so). Throws Error(decode_failed) for bad JSON,
/// Error(invalid_argument) for wrong types and impossible values, Error(unsupported_format) for a
/// `model_type` whose network this program does not compute, for an architecture of timm's with a part that this
/// program does not compute, and for every argument that may change the computation in an unknown
/// way.
HubConfig read_hub_config(const std::filesystem::path& folder);

/// The same from timm's train.py, which writes the architecture's name into its files as `arch` or
/// `args.model` and its arguments as `args.gp` and `args.model_kwargs`. Kind `none` without a name.
/// Errors name `file`.
HubConfig read_training_arguments(const std::map<std::string, std::string>& metadata,
                                  const std::filesystem::path& file);

/// The rotations of DINOv3's queries and keys: the periods of `base`, of places from -1 to 1.
model::PositionSpec dinov3_rotations(double base = 100);

/// Sets what an activation in Hugging Face's words asks of the network. Throws
/// Error(unsupported_format) with the word for one that it does not compute.
void parts_of(std::string_view activation, model::VitConfig& config, const std::string& subject);

/// Names of classes as a JSON array of strings, each a line of a label file: our own files' form.
/// Throws Error(decode_failed), Error(invalid_argument).
std::vector<std::string> parse_label_names(std::string_view json, const std::string& subject);
std::string to_label_names(const std::vector<std::string>& lines);

}  // namespace hydrascope::checkpoint
