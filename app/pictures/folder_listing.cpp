#include "app/pictures/folder_listing.h"

#include "kernels/error.h"

#include <algorithm>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

bool path_order(const FolderEntry& left, const FolderEntry& right) {
  const auto byte_at = [](const FolderEntry& entry, std::size_t index) {
    if (index < entry.name.size())
      return static_cast<int>(static_cast<unsigned char>(entry.name[index]));
    return index == entry.name.size() && entry.kind == EntryKind::folder ? int{'/'} : -1;
  };
  const auto [end, other_end] =
      std::mismatch(left.name.begin(), left.name.end(), right.name.begin(), right.name.end());
  const auto same = static_cast<std::size_t>(end - left.name.begin());
  return byte_at(left, same) < byte_at(right, same);
}

/// The kind of an entry that is no file, "" for a file.
std::string special_kind(fs::file_type type) {
  switch (type) {
    case fs::file_type::fifo: return "a pipe";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::block:
    case fs::file_type::character: return "a device";
    default: return "";
  }
}

FolderEntry describe(const fs::directory_entry& entry, std::string name) {
  std::error_code ignored;
  FolderEntry described{.name = std::move(name), .is_link = entry.is_symlink(ignored)};
  if (entry.is_directory(ignored)) {
    described.kind = EntryKind::folder;
    return described;
  }
  if (entry.is_regular_file(ignored)) return described;
  described.kind = EntryKind::no_file;
  std::error_code error;
  const fs::file_type type = fs::status(entry.path(), error).type();
  const std::string special = special_kind(type);
  if (!special.empty()) {
    described.why = special + ": it is read only where it is named";
  } else if (type == fs::file_type::not_found) {
    described.error = ErrorCode::not_found;
    described.why = described.is_link ? "a link to a file that does not exist" : "no longer there";
  } else {
    described.why = error == std::errc::too_many_symbolic_link_levels
                        ? "a link that leads to itself"
                        : "cannot be looked at: " + error.message();
  }
  return described;
}

}  // namespace

std::vector<FolderEntry> list_folder(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(describe(*entry, entry->path().filename().native()));
  }
  if (error) {
    const bool missing = error == std::errc::no_such_file_or_directory;
    throw Error(missing ? ErrorCode::not_found : ErrorCode::unreadable,
                "cannot list the folder: " + error.message(), folder.native());
  }
  std::ranges::sort(entries, path_order);
  return entries;
}

bool has_subfolders(const fs::path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const FolderEntry& entry) {
    return entry.kind == EntryKind::folder && !is_hidden(entry.name);
  });
}

std::optional<FolderEntry> find_entry(const fs::path& folder, std::string_view name) {
  // The system would take what stands before a zero byte for the name.
  if (name.find('\0') != std::string_view::npos) return std::nullopt;
  std::error_code error;
  const fs::directory_entry entry(folder / name, error);
  if (error || !(entry.is_symlink(error) || entry.exists(error))) return std::nullopt;
  return describe(entry, std::string(name));
}

std::optional<FolderId> folder_id(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  return FolderId{status.st_dev, status.st_ino};
}

std::vector<FolderId> folders_above(const fs::path& folder) {
  std::vector<FolderId> above;
  std::error_code ignored;
  for (fs::path path :
       {fs::absolute(folder, ignored).lexically_normal(), fs::canonical(folder, ignored)}) {
    // A path that ends in a slash has the folder itself for its parent.
    if (!path.has_filename()) path = path.parent_path();
    while (path.has_relative_path()) {
      path = path.parent_path();
      if (const auto id = folder_id(path)) above.push_back(*id);
    }
  }
  return above;
}

bool LinkGuard::may_follow(FolderId target, std::span<const FolderId> ancestors) {
  if (std::find(ancestors.begin(), ancestors.end(), target) != ancestors.end()) return false;
  return followed_.insert(target).second;
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string joined(folder);
  if (!joined.empty() && joined.back() != '/') joined += '/';
  joined += name;
  return joined;
}

}  // namespace hydrascope::app
