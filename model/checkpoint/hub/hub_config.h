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
  /// Nothing is known of that name, so that tensors alone would have to say what it computes.
  bool is_unknown = false;
  /// The name says `global_pool`, no key does.
  bool pooling_is_of_name = false;
  std::string license;              ///< "" when it says nothing
  std::vector<std::string> labels;  ///< of the classes in order; empty when it names none
  TransformHints transform;
  std::vector<std::string> notes;

  // What the tensors do not show; unset where the file says nothing.
  std::optional<std::int64_t> num_heads;
  std::optional<std::int64_t> num_classes;
  std::optional<std::int64_t> img_height;
  std::optional<std::int64_t> img_width;
  std::optional<double> layer_norm_eps;
  std::optional<model::Pooling> global_pool;

  /// A key that says what the tensors show too.
  struct Claim {
    std::string key;
    std::function<std::string(const model::VitConfig&)> shown;
    std::string value;
  };
  std::vector<Claim> claims;
  bool says_gelu = false;      ///< by name, which is not what gated MLPs have
  bool pads_pictures = false;  ///< timm's dynamic_img_pad
  std::string says_classes;    ///< the key that `num_classes` comes from

  /// Writes what is set and shown by no tensor into `config`.
  void apply_to(model::VitConfig& config) const;
  /// Throws Error(invalid_argument) that names file and key where the file contradicts `config`,
  /// which the tensors have corrected.
  void check(const model::VitConfig& config) const;
  /// The same for the number of rows of the file's classifier, which is kept.
  void check_classes(std::int64_t rows) const;
  /// Throws Error(unsupported_format) for an architecture of which nothing is known.
  void check_is_known() const;
};

/// Reads what `folder` holds; kind `none` when there is no config.json, or one that is about
/// something else (a note says so). Throws Error(decode_failed) for bad JSON,
/// Error(invalid_argument) for wrong types and impossible values, Error(unsupported_format) for a
/// `model_type` other than vit and deit, for an architecture of timm's with a part that this program
/// does not compute, and for every argument that may change the computation in a way that it does not
/// know.
HubConfig read_hub_config(const std::filesystem::path& folder);

/// The same of what timm's train.py writes into its files: the architecture's name as `arch` or `args.model`, its arguments as
/// `args.gp` and `args.model_kwargs`. Kind `none` where there is no name. `file` is what errors name.
HubConfig read_training_arguments(const std::map<std::string, std::string>& metadata,
                                  const std::filesystem::path& file);

/// Names of classes as a JSON array of strings, each a line of a label file: how our own files keep
/// them. Throws Error(decode_failed), Error(invalid_argument).
std::vector<std::string> parse_label_names(std::string_view json, const std::string& subject);
std::string to_label_names(const std::vector<std::string>& lines);

}  // namespace hydrascope::checkpoint
