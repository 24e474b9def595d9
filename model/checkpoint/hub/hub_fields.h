// The common parts of the readers of timm's and of Hugging Face's configurations.
#pragma once

#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/hub/hub_config.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace hydrascope::checkpoint {

// The bounds of `model::validate`; here so that errors name the file and its key.
inline constexpr std::int64_t kMaxPixels = 1 << 17;
inline constexpr std::int64_t kMaxWidth = 1 << 15;
inline constexpr std::int64_t kMaxDepth = 1024;
inline constexpr std::int64_t kMaxClasses = 10'000'000;

/// Throws Error(unsupported_format).
[[noreturn]] void refuse_kind(const JsonFields& fields, const std::string& what);

inline std::string flag_text(bool value) { return value ? "true" : "false"; }

// Claims a key if it is there.
void claim(HubConfig& config, const JsonFields& fields, const char* key,
           std::int64_t model::VitConfig::*field, std::int64_t most, std::int64_t least = 1);
void claim(HubConfig& config, const JsonFields& fields, const char* key,
           bool model::VitConfig::*field);
void claim(HubConfig& config, std::string key, std::int64_t model::VitConfig::*field,
           std::int64_t value);
void claim_patch_size(HubConfig& config, const JsonFields& fields);

/// An edge, or [height, width].
void read_img_size(HubConfig& config, const JsonFields& fields, const char* key);

/// Refuses other numbers of channels than one and three, which pictures have.
void check_channels(const JsonFields& fields, std::optional<std::int64_t> channels);

/// A line of a label file: no line breaks, never blank.
std::string as_label(std::string text, std::size_t index);

void read_timm_labels(HubConfig& config, const JsonFields& fields);
void read_hugging_face(HubConfig& config, const JsonFields& fields, const std::string& origin);
void read_timm(HubConfig& config, const JsonFields& fields, const std::string& origin);

}  // namespace hydrascope::checkpoint
