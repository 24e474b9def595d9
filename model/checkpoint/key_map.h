// Names of tensors in checkpoints of others -> the names of the modules (timm's). One table; a
// layout is detected by the keys that are there, never by a version.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

/// One layout of names.
struct KeyMap {
  std::string_view name;                               ///< "timm"
  bool (*matches)(std::span<const std::string> keys);  ///< is this the file's layout?
  /// The module's name of a file's key; nothing when the tensor is not used for inference.
  std::optional<std::string> (*rename)(std::string_view key);
};

/// All layouts, the most specific first.
std::span<const KeyMap> key_maps();

/// The layout that the keys show; throws Error(unsupported_format) that names some of them.
const KeyMap& detect_key_map(std::span<const std::string> keys, const std::string& subject);

}  // namespace hydrascope::checkpoint
