// Locks that keep two runs out of one file or folder.
#pragma once

#include <filesystem>

namespace hydrascope::app {

/// A file or folder that is there, locked against others that ask for the same until this ends, or
/// the process, however it ends. Nothing is locked where the file system has no locks.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  /// By another: this one has it not.
  [[nodiscard]] bool is_taken() const noexcept { return is_taken_; }
  /// Does `path` still stand for what is locked? True where there are no locks.
  [[nodiscard]] bool is_of(const std::filesystem::path& path) const noexcept;
  /// Waits until what it holds is on the disk; 0 or an errno.
  [[nodiscard]] int sync() const noexcept;

 private:
  int descriptor_;
  bool is_taken_ = false;
};

}  // namespace hydrascope::app
