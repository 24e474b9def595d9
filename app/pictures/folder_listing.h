// One folder's entries in the order in which walks visit them.
#pragma once

#include "kernels/error.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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
/// are `no_file`: opening what was not named could block. Throws Error(not_found) or
/// Error(unreadable).
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder);

/// Whether it holds a folder that is not hidden. Throws as `list_folder` does.
bool has_subfolders(const std::filesystem::path& folder);

/// The entry `name` of `folder` without listing the folder (which may be searchable but not
/// readable), or nothing when there is none.
std::optional<FolderEntry> find_entry(const std::filesystem::path& folder, std::string_view name);

/// Whether `folder` is `outer` or lies in it. Both are canonical.
bool is_within(const std::filesystem::path& folder, const std::filesystem::path& outer);

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

/// `folder` and `name` with exactly one separator between them; an empty folder gives `name`.
std::string join_path(std::string_view folder, std::string_view name);

inline bool is_hidden(std::string_view name) { return name.starts_with('.'); }

}  // namespace hydrascope::app
