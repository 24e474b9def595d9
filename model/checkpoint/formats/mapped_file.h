// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace hydrascope::checkpoint {

/// A read-only view of a whole regular file's bytes; an empty file gives no bytes. A file that is
/// replaced stays as it was opened; reading what one has lost that is shortened in place raises
/// SIGBUS, and `mapped_file_at` says which one that was.
class MappedFile {
 public:
  /// Throws Error(not_found), or Error(unreadable) for folders, devices and refused permissions.
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// The file that is mapped there; "" where none is. For a handler of SIGBUS: nothing is allocated.
[[nodiscard]] std::string_view mapped_file_at(const void* address) noexcept;

/// Lets go of what is resident of `bytes` where a mapped file lies: it would count as this
/// process's memory as long as the mapping lives. Reading them again reads the file again. Other
/// memory stays, and so does less than a megabyte.
void release_pages(std::span<const std::byte> bytes) noexcept;

}  // namespace hydrascope::checkpoint
