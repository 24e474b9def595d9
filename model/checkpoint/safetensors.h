// The safetensors file format, read strictly and written deterministically. Free of LibTorch, so that
// it can be fuzzed. Files are mapped, not copied.
// Format: 8-byte little-endian N, N bytes of JSON header, then the buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::checkpoint {

enum class Dtype {
  BOOL, U8, I8, I16, U16, F16, BF16, I32, U32, F32, I64, U64, F64,
  F8_E4M3, F8_E5M2, F8_E8M0, C64,
};
std::string_view name(Dtype dtype);
/// Bytes of one element.
std::size_t size_of(Dtype dtype);

/// Metadata of a file: string to string, sorted.
using Metadata = std::map<std::string, std::string>;

/// One tensor inside a file: row-major, `data` points into the mapping and may be unaligned.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;      ///< empty for a scalar
  std::span<const std::byte> data;
};

/// A read-only view of a whole file's bytes. Throws not_found, unreadable.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// The parsed header over bytes that somebody else owns. Tensors are sorted by their offset.
struct SafetensorsIndex {
  Metadata metadata;
  std::vector<TensorView> tensors;
};

/// Parses and checks every rule of the format; throws `Error(decode_failed)` (or `unsupported_format`
/// for a file that is something else: an LFS pointer, an HTML page, a torch zip, a pickle, GGUF) that
/// names the rule, what was expected and what was found. `subject` is what errors name.
SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& subject);

/// What the first bytes say: "safetensors", "torch_zip", "torch_legacy", "gguf", "git_lfs_pointer",
/// "html", "empty" or "unknown". Pure; used for messages and by `inspect`.
std::string_view sniff_format(std::span<const std::byte> bytes);

/// One mapped file, or all shards of a `*.safetensors.index.json`, as one table of tensors.
class SafetensorsFile {
 public:
  /// Opens `FILE.safetensors` or `*.safetensors.index.json`.
  static SafetensorsFile open(const std::filesystem::path& file);

  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// Sorted by shard, then by offset.
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// nullptr when there is no tensor of that name.
  [[nodiscard]] const TensorView* find(std::string_view name) const noexcept;

 private:
  std::vector<std::shared_ptr<MappedFile>> files_;
  Metadata metadata_;
  std::vector<TensorView> tensors_;
};

/// Writes `tensors` and `metadata`: sorted by alignment (widest dtype first) then name, header padded
/// with spaces to a multiple of 8, through a temporary file beside `file` that is synced and renamed.
/// Throws invalid_argument for duplicate names or a span whose size contradicts its shape, unreadable
/// when it cannot write.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata);

}  // namespace hydrascope::checkpoint
