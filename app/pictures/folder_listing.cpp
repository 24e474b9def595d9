#include "app/pictures/folder_listing.h"

#include "kernels/error.h"

#include <algorithm>
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

FolderEntry describe(const fs::directory_entry& entry, std::string name) {
  std::error_code error;
  FolderEntry described{.name = std::move(name), .is_link = entry.is_symlink(error)};
  const bool is_folder = entry.is_directory(error);  // which mostly asks the listing, not the disk
  if (is_folder) described.kind = EntryKind::folder;
  if (is_folder || entry.is_regular_file(error)) return described;
  described.kind = EntryKind::no_file;
  if (entry.status(error).type() == fs::file_type::not_found) {
    described.error = ErrorCode::not_found;
    described.why = "a link to a file that does not exist";
  } else if (error) {
    described.why = "cannot be looked at: " + error.message();
  } else {
    described.why = "a pipe, a socket or a device: it is read only where it is named";
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

bool is_within(const fs::path& folder, const fs::path& outer) {
  const fs::path inside = folder.lexically_relative(outer);
  return !inside.empty() && *inside.begin() != "..";
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string joined(folder);
  if (!joined.empty() && joined.back() != '/') joined += '/';
  joined += name;
  return joined;
}

}  // namespace hydrascope::app
