// The kind of a file without readable weights, by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

/// The format by the first bytes: "safetensors", "torch_zip" (any zip archive), "torch_legacy" (any
/// pickle), "json", "empty", the name of a format that is not read and often met ("gguf", "onnx", "hdf5",
/// "git_lfs_pointer", "html", "picture", ...), "text", "zeros" or "unknown". Pure; a few hundred
/// bytes are enough.
std::string_view sniff_format(std::span<const std::byte> bytes);

/// Throws Error(unsupported_format), and Error(empty) for "empty": "expected EXPECTED, found an
/// ONNX model", with a way out as the hint. `bytes` is the file or its beginning.
[[noreturn]] void refuse_format(std::string_view format, std::span<const std::byte> bytes,
                                std::string_view expected, const std::string& subject);

}  // namespace hydrascope::checkpoint
