// The place that a name of a file to be written leads to, and names beside it. It sits beside
// new_file.h, for all that write files.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace hydrascope {

/// A stream that is open already, as a name leads to it.
struct OpenStream {
  std::optional<int> descriptor;  ///< this process's; none: another process's
};

/// Whether `file` is an open descriptor or a link to one: /dev/stdout, /dev/stderr, /dev/stdin,
/// /dev/fd/N, /proc/self/fd/N, /proc/PID/fd/N and the same of a thread. Without /proc these names
/// say it. The file behind a descriptor must never be replaced: others write to it as well.
std::optional<OpenStream> open_stream(const std::filesystem::path& file);

/// The file that `file` stands for where it is a link, be the end there or not.
std::filesystem::path end_of_links(std::filesystem::path file);

/// The name of a file or folder beside `target`: its name with `suffix` behind it. A name that
/// would be too long is cut between two UTF-8 characters, and a number that follows from the whole
/// of it takes the place of the rest: the same target always has the same neighbour.
std::filesystem::path beside(const std::filesystem::path& target, std::string_view suffix);

/// The folder of a file. If its path is nearly as long as paths can be, a short one through
/// /proc, which lasts as long as this does: what lies beside the file may have a longer name.
class FolderOf {
 public:
  explicit FolderOf(const std::filesystem::path& file);
  ~FolderOf();
  FolderOf(const FolderOf&) = delete;
  FolderOf& operator=(const FolderOf&) = delete;
  /// Empty for a file of the working folder.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace hydrascope
