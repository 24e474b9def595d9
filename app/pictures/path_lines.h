// A list of paths, one per line: a file or standard input.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <string>

namespace hydrascope::app {

/// The lines that are not empty, each read when it is asked for, so that a pipe's paths are worked
/// on as they come. A byte order mark is dropped; a carriage return at the end is kept (it may
/// belong to the name). A line longer than any path is cut instead of kept: the "list" may be a
/// picture.
class PathLines {
 public:
  struct Line {
    std::string text;
    bool too_long = false;  ///< `text` is only its beginning
  };

  /// `given` is what the user called the list; `stream` must outlive this.
  PathLines(std::string given, std::istream& stream);
  /// `folder` is what paths may be relative to.
  PathLines(std::string given, std::unique_ptr<std::ifstream> file, std::filesystem::path folder);

  /// The next line, or nothing at the end. Throws Error(unreadable) when reading fails.
  std::optional<Line> next();
  [[nodiscard]] const std::string& given() const noexcept { return given_; }
  /// "" for standard input.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Whether there was any line.
  [[nodiscard]] bool produced() const noexcept { return produced_; }

 private:
  std::optional<Line> read();

  std::string given_;
  std::unique_ptr<std::ifstream> file_;
  std::istream& stream_;
  std::filesystem::path folder_;
  bool is_first_ = true;
  bool produced_ = false;
};

}  // namespace hydrascope::app
