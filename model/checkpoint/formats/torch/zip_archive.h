// The table of contents of a zip archive (PKWARE APPNOTE 6.3.10, with zip64), as far as torch.save
// uses the format: its entries are stored, so that a tensor is a range of the mapped file. Nothing
// is decompressed and checksums are not compared, as torch.save may leave them out. Free of
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

/// Entries by name, over bytes that somebody else owns.
class ZipArchive {
 public:
  struct Entry {
    std::uint64_t header_offset = 0;
    std::uint64_t stored_size = 0;  ///< in the archive
    std::uint64_t size = 0;         ///< unpacked
    std::uint16_t method = 0;       ///< 0: stored
    std::uint16_t flags = 0;
  };
  using Entries = std::map<std::string_view, Entry>;

  /// Reads the central directory. Throws Error(decode_failed) for a directory that is missing,
  /// damaged or names an entry twice. Errors name `subject`.
  ZipArchive(std::span<const std::byte> bytes, std::string subject);

  [[nodiscard]] const Entries& entries() const noexcept { return entries_; }
  /// The content of an entry. Throws Error(decode_failed) when there is no such entry or its local
  /// header contradicts the directory, Error(unsupported_format) when it is compressed or
  /// encrypted.
  [[nodiscard]] std::span<const std::byte> content(std::string_view name) const;

 private:
  struct Directory;
  [[nodiscard]] Directory find_directory() const;
  [[nodiscard]] std::size_t find_end_record() const;

  std::span<const std::byte> bytes_;
  std::string subject_;
  Entries entries_;
  std::uint64_t directory_offset_ = 0;  ///< the end of all entries
};

}  // namespace hydrascope::checkpoint
