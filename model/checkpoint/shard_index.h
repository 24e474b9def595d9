// `*.safetensors.index.json`: which file of a sharded checkpoint holds which tensor. Free of
// LibTorch.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

/// Tensor name to file name.
using WeightMap = std::map<std::string, std::string>;

/// Reads {"weight_map": {tensor: file}, ...}; other members are ignored. Throws
/// Error(decode_failed) for anything else, for an empty map, and for names that could lead out of
/// the index's folder.
WeightMap read_weight_map(std::string_view text, const std::string& subject);

}  // namespace hydrascope::checkpoint
