// A file that has its name only once it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace hydrascope::viz {

/// An empty file beside its target for others to write, under a hidden name that ends in the
/// target's extension; takes the target's name on `commit`, and vanishes without it.
class PendingFile {
 public:
  /// Throws Error(unreadable) when the disk says no, and where the target is no file.
  explicit PendingFile(const std::filesystem::path& target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  /// Throws Error(unreadable).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
  bool committed_ = false;
};

/// A pending file that is written here. All throw Error(unreadable) when the disk says no.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& target);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// At the end.
  void write(std::span<const std::byte> bytes);
  /// Over bytes that were written already; the next ones still go to the end.
  void overwrite(std::int64_t position, std::span<const std::byte> bytes);
  void commit();

 private:
  PendingFile file_;
  int descriptor_ = -1;
};

}  // namespace hydrascope::viz
