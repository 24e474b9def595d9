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

/// The name of a file or folder beside `target`: its name with `suffix` behind it.
std::filesystem::path beside(const std::filesystem::path& target, std::string_view suffix);

}  // namespace hydrascope
