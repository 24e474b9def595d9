// What configuration files say of the evaluation transform: timm's `pretrained_cfg` and Hugging
// Face's `preprocessor_config.json` in this project's terms.
#pragma once

#include "model/image/transform_plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

class JsonFields;

/// Some fields of a transform, and where each one comes from.
struct TransformHints {
  image::TransformConfig values;
  /// "img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std" or "size" (`native`) ->
  /// "config.json"; a field of `values` that is not in here says nothing.
  std::map<std::string, std::string> origins;

  /// Overwrites what this says.
  void apply_to(image::TransformConfig& config,
                std::map<std::string, std::string>& origins_of_config) const;
};

/// `input_size` (channels, height, width), `crop_pct`, `crop_mode`, `interpolation`, `mean`, `std`:
/// timm's `pretrained_cfg`, and the `transform` of our own files. Throws Error(invalid_argument).
TransformHints read_timm_transform(const JsonFields& fields, const std::string& origin);
/// The same from the metadata entry of our own files.
TransformHints parse_timm_transform(std::string_view json, const std::string& origin,
                                    const std::string& subject);
/// The reverse, with all fields: what our own files hold.
std::string to_timm_transform(const image::TransformConfig& config, std::int64_t in_chans);

/// What Hugging Face's image processors assume of a key that is absent.
struct ProcessorDefaults {
  bool deit = false;     ///< DeiTImageProcessor: bicubic, 256 -> crop 224; else ViTImageProcessor
  image::Size img_size;  ///< `image_size` of the model's configuration
  std::string origin;    ///< of those values: "Hugging Face's defaults for vit"
  std::int64_t channels = 3;  ///< `num_channels` of the model's configuration
};

/// `size` (a number, {height, width} or {shortest_edge}), `resample` 0, 2 or 3, `do_resize`,
/// `do_center_crop`, `crop_size`, `do_rescale`, `rescale_factor`, `do_normalize`, `image_mean`,
/// `image_std`. Both edges are resized ("squash") unless `size` says shortest_edge. Throws
/// Error(invalid_argument) for wrong types, impossible values and what cannot be expressed.
TransformHints read_preprocessor(const JsonFields& fields, const std::string& origin,
                                 const ProcessorDefaults& defaults);

}  // namespace hydrascope::checkpoint
