#include "app/folder_walk.h"

#include <utility>

namespace hydrascope::app {
namespace fs = std::filesystem;

FolderWalk::FolderWalk(std::string given, fs::path root, bool recursive, NameOrder order)
    : given_(std::move(given)), root_(std::move(root)), recursive_(recursive), order_(order) {
  first_failure_ = enter(given_, root_);
}

std::optional<Input> FolderWalk::next() {
  if (first_failure_) return std::exchange(first_failure_, std::nullopt);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next_entry == frame.entries.size()) {
      frames_.pop_back();
      ancestors_.pop_back();
      continue;
    }
    const FolderEntry& entry = frame.entries[frame.next_entry++];
    if (is_hidden(entry.name)) continue;
    std::string given = join_path(frame.given, entry.name);
    fs::path path = frame.path / entry.name;
    if (entry.kind == EntryKind::folder) {
      has_subfolders_ = true;
      if (!recursive_ || !may_enter(entry, path)) continue;
      if (auto failure = enter(std::move(given), std::move(path))) return failure;
      continue;
    }
    if (!has_image_extension(entry.name)) continue;
    produced_ = true;
    if (entry.kind == EntryKind::file) return file_input(std::move(given), std::move(path));
    return failed_input(std::move(given), std::move(path), ErrorCode::not_found,
                        "a link to a file that does not exist");
  }
  if (std::exchange(produced_, true)) return std::nullopt;
  return failed_input(given_, root_, ErrorCode::empty,
                      has_subfolders_ && !recursive_
                          ? "no pictures in this folder; --recursive looks into its sub-folders"
                          : "no pictures in this folder");
}

bool FolderWalk::may_enter(const FolderEntry& entry, const fs::path& path) {
  if (!entry.is_link) return true;
  const auto target = folder_id(path);
  return target && guard_.may_follow(*target, ancestors_);
}

std::optional<Input> FolderWalk::enter(std::string given, fs::path path) {
  try {
    auto entries = list_folder(path, order_);
    ancestors_.push_back(folder_id(path).value_or(FolderId{}));
    frames_.push_back({std::move(given), std::move(path), std::move(entries)});
    return std::nullopt;
  } catch (const Error& error) {
    produced_ = true;
    return failed_input(std::move(given), std::move(path), error.code(), error.what());
  }
}

}  // namespace hydrascope::app
