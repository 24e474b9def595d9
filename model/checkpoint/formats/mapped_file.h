// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace hydrascope::checkpoint {

/// A read-only view of a whole regular file's bytes; an empty file gives no bytes. The view of a
/// replaced file stays as it was opened. Reading the lost bytes of a file that was shortened in
/// place raises SIGBUS; `mapped_file_at` names that file.
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

/// The file mapped at `address`; "" without one. For a handler of SIGBUS: nothing is allocated.
[[nodiscard]] std::string_view mapped_file_at(const void* address) noexcept;

/// Releases the resident pages of `bytes` inside a mapped file, which otherwise count as this
/// process's memory until the mapping ends. Reading them again reads the file again. Other memory
/// stays, and so does less than a megabyte.
void release_pages(std::span<const std::byte> bytes) noexcept;

}  // namespace hydrascope::checkpoint
