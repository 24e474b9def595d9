// A file that is written piece by piece under a temporary name beside its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace hydrascope::viz::page {

class PageFile {
 public:
  /// Throws Error(unreadable) where the folder cannot be written, or `target` is a folder or
  /// device.
  explicit PageFile(std::filesystem::path target);
  ~PageFile();  ///< without `commit` nothing is left
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  /// At the end. Throws Error(unreadable).
  void append(std::string_view text);
  /// Over bytes that were appended. Throws Error(unreadable).
  void overwrite(std::int64_t position, std::string_view text);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Closes it and gives it its name. Throws Error(unreadable).
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  void write_at(std::int64_t position, std::string_view text);

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  bool committed_ = false;
};

}  // namespace hydrascope::viz::page
