// A file that has its name only once it is whole. It sits in the lowest room, beside error.h,
// because weights, pictures and arrays are all written so.
#pragma once

#include "kernels/file_place.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace hydrascope {

/// An empty file beside its target for others to write, under a hidden name that ends in the
/// target's extension; takes the target's name on `commit`, and vanishes without it. A link to the
/// target stays one. The hidden name follows from the target's, so that what a killed program left is
/// used by the next one that writes the same file.
class PendingFile {
 public:
  /// Throws Error(unwritable) if no file can be made there, and where the target is no file: a
  /// folder, a device or an open stream.
  explicit PendingFile(const std::filesystem::path& target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  /// For writing; the pending file's own.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// After a crash of the machine there is the old file or the whole new one; with `sync_name` it
  /// is the new one once this returns. Throws Error(unwritable).
  void commit(bool sync_name = false);

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
  int descriptor_ = -1;  ///< locked while the file is pending
  bool committed_ = false;
};

/// A pending file that is written here. All throw Error(unwritable) if writing fails.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& target) : file_(target) {}

  /// At the end.
  void write(std::span<const std::byte> bytes);
  /// Over bytes that were written already; the next ones still go to the end.
  void overwrite(std::int64_t position, std::span<const std::byte> bytes);
  void commit(bool sync_name = false) { file_.commit(sync_name); }

 private:
  PendingFile file_;
};

}  // namespace hydrascope
