#include "kernels/file_place.h"

#include "kernels/number_text.h"

#include <array>
#include <linux/magic.h>
#include <string>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // Linux's own limit

/// Whether a folder that holds a process's descriptors is this process's. Nothing for
/// other folders. /proc may be mounted anywhere, and may count processes as another container does.
std::optional<bool> holds_own_descriptors(const fs::path& folder) {
  for (const char* known : {"/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"})
    if (folder == known) return true;  // not resolved: there is no /proc
  struct statfs system {};
  if (folder.filename() != "fd" || ::statfs(folder.c_str(), &system) != 0 ||
      system.f_type != PROC_SUPER_MAGIC)
    return std::nullopt;
  fs::path process = folder.parent_path();
  if (process.parent_path().filename() == "task") process = process.parent_path().parent_path();
  std::error_code ignored;
  return process.filename() == fs::read_symlink(process.parent_path() / "self", ignored);
}

/// `file` itself, whatever it links to.
std::optional<OpenStream> named_stream(const fs::path& file) {
  constexpr std::array<std::pair<const char*, int>, 3> kStandard{
      {{"stdin", STDIN_FILENO}, {"stdout", STDOUT_FILENO}, {"stderr", STDERR_FILENO}}};
  std::error_code error;
  fs::path folder = fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
  if (error) folder = fs::absolute(file, error).lexically_normal().parent_path();
  for (const auto& [name, descriptor] : kStandard)
    if (folder == "/dev" && file.filename() == name) return OpenStream{descriptor};
  const auto number = parse_number<int>(file.filename().native());
  const auto is_own = number ? holds_own_descriptors(folder) : std::nullopt;
  if (!is_own) return std::nullopt;
  return OpenStream{*is_own ? number : std::nullopt};
}

/// The path that the link `file` names, from the same place; nothing where it is no link.
std::optional<fs::path> next_of_link(const fs::path& file) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(file, error))) return std::nullopt;
  const fs::path next = fs::read_symlink(file, error);
  if (error) return std::nullopt;
  return file.parent_path() / next;
}

}  // namespace

std::optional<OpenStream> open_stream(const fs::path& file) {
  std::optional<fs::path> at = file;
  for (int i = 0; i <= kMostLinks && at; ++i) {
    if (const auto stream = named_stream(*at)) return stream;
    at = next_of_link(*at);
  }
  return std::nullopt;
}

fs::path end_of_links(fs::path file) {
  for (int i = 0; i < kMostLinks; ++i) {
    auto next = next_of_link(file);
    if (!next) break;
    file = std::move(*next);
  }
  return file;
}

fs::path beside(const fs::path& target, std::string_view suffix) {
  return target.native() + std::string(suffix);
}

}  // namespace hydrascope
