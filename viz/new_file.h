// A file that has its name only once it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace hydrascope::viz {

/// Lies beside its target under a temporary name; takes the target's on `commit`, and vanishes
/// without it. All throw Error(unreadable) when the disk says no.
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
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path target_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace hydrascope::viz
