// A list of paths: a file or standard input.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// One path a line, or one before each zero byte where the first 4 KiB hold one (`find -print0`).
/// Empty ones are left out. Each is read when it is asked for, so that a pipe's paths are worked on
/// as they come. A byte order mark is dropped; a carriage return at the end is kept (it may belong
/// to the name). A line longer than any path is cut instead of kept.
class PathLines {
 public:
  struct Line {
    std::string text;
    bool too_long = false;  ///< `text` is only its beginning
  };
  enum class Content { paths, picture, other };

  /// `given` is what the user called the list; `stream` must outlive this.
  PathLines(std::string given, std::istream& stream);
  /// `folder` is what paths may be relative to.
  PathLines(std::string given, std::unique_ptr<std::istream> file, std::filesystem::path folder);

  /// By the first bytes, of which no more are waited for than tell. All of these throw
  /// Error(unreadable) when reading fails.
  Content content();
  /// Everything, of what holds no paths; one byte more than `most` where there are more.
  std::vector<std::byte> bytes(std::size_t most);

  /// The next line, or nothing at the end.
  std::optional<Line> next();
  [[nodiscard]] const std::string& given() const noexcept { return given_; }
  [[nodiscard]] bool is_standard_input() const noexcept { return file_ == nullptr; }
  /// "" for standard input.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Whether there was any line.
  [[nodiscard]] bool produced() const noexcept { return produced_; }

 private:
  std::optional<char> take();
  std::optional<Line> read();

  std::string given_;
  std::unique_ptr<std::istream> file_;
  std::istream& stream_;
  std::filesystem::path folder_;
  std::string head_;       ///< what was read ahead
  std::size_t taken_ = 0;  ///< of it
  std::optional<Content> content_;
  char separator_ = '\n';
  bool produced_ = false;
};

}  // namespace hydrascope::app
