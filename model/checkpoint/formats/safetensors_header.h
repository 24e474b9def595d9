// The JSON header of a safetensors file, read as text before it is compared with the buffer.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

inline constexpr std::string_view kMetadataKey = "__metadata__";

/// One tensor's entry. The buffer holds it at [begin, end), if the file is right.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<TensorEntry> entries;  ///< in the order of their names
};

/// Checks the grammar {"__metadata__": {string: string}, name: {"dtype": string, "shape":
/// [integer], "data_offsets": [begin, end]}}. Throws Error(decode_failed) that names tensor and
/// field.
SafetensorsHeader read_header(std::string_view text, const std::string& subject);

/// Bytes of a tensor. Nothing when an extent is negative or the product overflows 63 bits; an
/// extent of zero does not hide the overflow, as strides would overflow all the same.
std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape, Dtype dtype);

/// "(2, 3)".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace hydrascope::checkpoint
