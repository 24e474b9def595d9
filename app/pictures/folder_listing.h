// One folder's entries in the order in which walks visit them, and the guard against links that
// lead back. Shared by folder walks and globs (glob.h).
#pragma once

#include "kernels/error.h"

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace hydrascope::app {

enum class EntryKind { file, folder, no_file };

struct FolderEntry {
  std::string name;                  ///< bytes as the file system has them, without the folder
  EntryKind kind = EntryKind::file;  ///< of the target, where the entry is a link
  bool is_link = false;
  // For `no_file`: why there is nothing to read.
  ErrorCode error = ErrorCode::unreadable;
  std::string why = {};
};

/// All entries, in the order of their paths: a folder sorts as `name/`, so a depth-first walk by
/// bytes has the order of `find | LC_ALL=C sort`. Links that lead nowhere, devices, sockets and pipes
/// are `no_file`: opening what nobody named could block. Throws Error(not_found) or
/// Error(unreadable).
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder);

/// Whether it holds a folder that is not hidden. Throws as `list_folder` does.
bool has_subfolders(const std::filesystem::path& folder);

/// The entry `name` of `folder` without listing the folder (which may be searchable but not
/// readable), or nothing when there is none.
std::optional<FolderEntry> find_entry(const std::filesystem::path& folder, std::string_view name);

/// The identity of a folder, whatever path leads to it.
struct FolderId {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const FolderId&, const FolderId&) = default;
};
/// Follows links; nothing when the folder is gone or out of reach.
std::optional<FolderId> folder_id(const std::filesystem::path& folder);

/// Keeps a recursive walk through linked folders finite: no link back to a folder on the way down
/// is followed, and no target twice, without which folders that all link to one another would be
/// walked in every permutation.
class LinkGuard {
 public:
  /// Whether to go through a link to `target` from below `ancestors`; remembers a yes.
  bool may_follow(FolderId target, std::span<const FolderId> ancestors);

 private:
  std::set<FolderId> followed_;
};

/// Files or links that a walk came by and did not take.
struct PassedBy {
  std::int64_t count = 0;
  std::string first;
  void add(std::string_view path) {
    if (count++ == 0) first = path;
  }
  PassedBy& operator+=(const PassedBy& more) {
    if (count == 0) first = more.first;
    count += more.count;
    return *this;
  }
};

/// The folders that `folder` lies in, up to the root: the folders of its path, and the folders
/// above the one that its links lead to.
std::vector<FolderId> folders_above(const std::filesystem::path& folder);

/// `folder` and `name` with exactly one separator between them; an empty folder gives `name`.
std::string join_path(std::string_view folder, std::string_view name);

inline bool is_hidden(std::string_view name) { return name.starts_with('.'); }

}  // namespace hydrascope::app
