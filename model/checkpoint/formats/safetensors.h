// The safetensors file format, read strictly and written deterministically. Free of LibTorch, so
// that it can be fuzzed. Files are mapped, not copied. Format: 8-byte little-endian N, N bytes of
// JSON header, then the buffer (https://github.com/huggingface/safetensors#format). The dtypes
// below a byte (F4, F6_*) are not read.
#pragma once

#include "model/checkpoint/formats/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

enum class Dtype {
  BOOL,
  U8,
  I8,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  I64,
  U64,
  F64,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  C64,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
};
/// The spelling in files: "F32", "F8_E4M3".
std::string_view name(Dtype dtype);
/// Bytes of one element.
std::size_t size_of(Dtype dtype);
/// The reverse of `name`.
std::optional<Dtype> find_dtype(std::string_view name);

inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Limits of a file; the writer keeps to them too.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxRank = 16;

/// Bytes of a tensor. Nothing when an extent is negative or the product overflows 63 bits; an
/// extent of zero does not hide the overflow, as strides would overflow all the same.
std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape, Dtype dtype);

/// "(2, 3)".
std::string shape_text(std::span<const std::int64_t> shape);

/// Metadata of a file: string to string, sorted.
using Metadata = std::map<std::string, std::string>;

/// One tensor inside a file: row-major, `data` points into the mapping and may be unaligned.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::span<const std::byte> data;
};

/// The parsed header over bytes that somebody else owns. Tensors are sorted by their offset.
struct SafetensorsIndex {
  Metadata metadata;
  std::vector<TensorView> tensors;
};

/// Parses and checks every rule of the format. Throws Error(decode_failed) that names the rule, the
/// expected and the found value, Error(empty) for no bytes, and Error(unsupported_format) with a
/// hint for a file of another format (`refuse_format`). Errors name `subject`.
SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& subject);

/// Whether there is a length within the limit and the beginning of a JSON object behind it.
bool is_safetensors(std::span<const std::byte> bytes);

/// A sharded checkpoint's map: tensor name to file name.
using WeightMap = std::map<std::string, std::string>;
/// Reads a `*.safetensors.index.json`, {"weight_map": {tensor: file}, ...}; other members are
/// ignored. Throws Error(decode_failed) for anything else, for an empty map, and for names that
/// could lead out of the index's folder.
WeightMap read_weight_map(std::string_view text, const std::string& subject);

/// Whether the file is an index, by its name or by its content: JSON with a "weight_map".
bool is_shard_index(const std::filesystem::path& file, std::span<const std::byte> bytes);

/// One mapped file, or all shards of an index, as one table of tensors.
class SafetensorsFile {
 public:
  /// Opens `FILE.safetensors` or an index, whose shards, of safetensors or of torch.save, lie
  /// beside it. Throws as `MappedFile`, `parse_safetensors` and `TorchPickleFile` do, and
  /// Error(decode_failed) if index and shards disagree.
  static SafetensorsFile open(const std::filesystem::path& file);

  /// "safetensors", or the format of the last shard of torch.save.
  [[nodiscard]] const std::string& format() const noexcept { return format_; }
  /// Notes on values left out of shards of torch.save.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// The metadata of all shards together; an entry on which two shards disagree is an error.
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// Sorted by shard, then by offset.
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// nullptr when there is no tensor of that name.
  [[nodiscard]] const TensorView* find(std::string_view name) const noexcept;

 private:
  void append(const std::filesystem::path& file);
  void append_torch(const std::filesystem::path& file);
  void append_shards(const std::filesystem::path& index_file);

  std::vector<std::shared_ptr<const void>> owners_;  ///< keep the memory of `tensors_`
  std::string format_ = "safetensors";
  std::vector<std::string> notes_;
  Metadata metadata_;
  std::vector<TensorView> tensors_;
};

/// Writes `tensors` and `metadata`: sorted by alignment (widest dtype first) then name, header
/// padded with spaces to a multiple of 8, `__metadata__` only when there is any; equal content
/// gives equal bytes. Writes a temporary file in the same folder, which is synced and renamed, so
/// `file` is whole or untouched, and `tensors` may point into the replaced file. Throws
/// Error(invalid_argument) for content that `parse_safetensors` would refuse (duplicate names, a
/// span whose size contradicts its shape, text that is not UTF-8), Error(unreadable) if it cannot
/// write, and `until_stopped` Stopped between two tensors.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata, bool until_stopped = false);

}  // namespace hydrascope::checkpoint
