// The images below a folder.
#pragma once

#include "app/folder_listing.h"
#include "app/inputs.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Depth first, in the order of paths; hidden names are skipped; linked folders are followed, but
/// never round in a circle (LinkGuard). A sub-folder that cannot be listed is one failed input, a
/// folder without images is one of code `empty`. Memory: the listings from the root down to the
/// current image.
class FolderWalk {
 public:
  /// `given` is what `root` is called in records.
  FolderWalk(std::string given, std::filesystem::path root, bool recursive,
             NameOrder order = NameOrder::bytes);
  /// The next input, or nothing at the end.
  std::optional<Input> next();

 private:
  struct Frame {
    std::string given;
    std::filesystem::path path;
    std::vector<FolderEntry> entries;
    std::size_t next_entry = 0;
  };

  bool may_enter(const FolderEntry& entry, const std::filesystem::path& path);
  std::optional<Input> enter(std::string given, std::filesystem::path path);

  std::string given_;
  std::filesystem::path root_;
  bool recursive_;
  NameOrder order_;
  bool produced_ = false;
  bool has_subfolders_ = false;
  std::vector<Frame> frames_;
  std::vector<FolderId> ancestors_;  ///< of `frames_`, one each
  LinkGuard guard_;
  std::optional<Input> first_failure_;
};

}  // namespace hydrascope::app
