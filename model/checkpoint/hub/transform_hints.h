// The evaluation transform in configuration files: timm's `pretrained_cfg` and Hugging Face's
// `preprocessor_config.json` in this project's terms.
#pragma once

#include "model/image/transform_plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

class JsonFields;

/// Some fields of a transform, and the source of each.
struct TransformHints {
  image::TransformConfig values;
  /// "img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std" or "size" (`native`) ->
  /// "config.json"; a field of `values` without an origin is not set.
  std::map<std::string, std::string> origins;
  std::string difference;  ///< between these values and the processor's pictures; "" for none

  /// Overwrites the fields that have an origin.
  void apply_to(image::TransformConfig& config,
                std::map<std::string, std::string>& origins_of_config) const;
};

/// `input_size` (channels, height, width), `crop_pct`, `crop_mode`, `interpolation`, `mean`, `std`:
/// timm's `pretrained_cfg`, and the `transform` of our own files. Throws Error(invalid_argument).
TransformHints read_timm_transform(const JsonFields& fields, const std::string& origin);
/// The same from the metadata entry of our own files.
TransformHints parse_timm_transform(std::string_view json, const std::string& origin,
                                    const std::string& subject);
/// The reverse, with all fields: our own files' form.
std::string to_timm_transform(const image::TransformConfig& config, std::int64_t in_chans);

/// Hugging Face's image processors.
enum class Processor { vit, deit, beit, bit, clip, siglip, dinov3 };

/// Hugging Face's image processors' defaults for absent keys.
struct ProcessorDefaults {
  Processor processor = Processor::vit;  ///< unless the file names another
  image::Size img_size;                  ///< `image_size` of the model's configuration
  std::string origin;         ///< source of the values: "Hugging Face's defaults for vit"
  std::int64_t channels = 3;  ///< `num_channels` of the model's configuration
};

/// `size` (a number, {height, width} or {shortest_edge}), `resample` 0, 2 or 3, `do_resize`,
/// `do_center_crop`, `crop_size`, `do_rescale`, `rescale_factor`, `do_normalize`, `image_mean`,
/// `image_std`. Both edges are resized ("squash") unless `size` says shortest_edge, as a number does
/// for CLIP and BiT. Throws Error(invalid_argument) for wrong types, impossible values and anything a
/// transform cannot express, Error(unsupported_format) for another image processor and for a key
/// that is neither read nor known to change nothing.
TransformHints read_preprocessor(const JsonFields& fields, const std::string& origin,
                                 const ProcessorDefaults& defaults);

}  // namespace hydrascope::checkpoint
