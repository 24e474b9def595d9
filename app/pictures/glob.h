// Patterns that name files: `*`, `?`, `[...]` inside a segment, `**` for any number of folders. For
// shells that did not expand them (quoted, or more files than an argument list holds).
#pragma once

#include "kernels/error.h"

#include <compare>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace hydrascope::app {

// One folder's entries in the order in which walks visit them, and the guard against links that
// lead back. Shared by folder walks and globs.

enum class EntryKind { file, folder, broken_link };

struct FolderEntry {
  std::string name;                  ///< bytes as the file system has them, without the folder
  EntryKind kind = EntryKind::file;  ///< of the target, where the entry is a link
  bool is_link = false;
};

enum class NameOrder {
  bytes,
  numbers  ///< runs of digits by the number they are (frame_2, frame_10), the rest by bytes
};

/// Regular files, folders and links to either, in the order of their paths: a folder sorts as
/// `name/`, so a depth-first walk by bytes has the order of `find | LC_ALL=C sort`. Devices,
/// sockets and pipes are left out: opening what nobody named could block. Throws Error(not_found)
/// or Error(unreadable).
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder,
                                     NameOrder order = NameOrder::bytes);

/// Whether it holds a folder that is not hidden. Throws as `list_folder` does.
bool has_subfolders(const std::filesystem::path& folder);

/// The entry `name` of `folder` without listing the folder (which may be searchable but not
/// readable), or nothing when there is none that `list_folder` would show.
std::optional<FolderEntry> find_entry(const std::filesystem::path& folder, std::string_view name);

/// What tells two folders apart whatever path leads to them.
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

/// `folder` and `name` with exactly one separator between them; an empty folder gives `name`.
std::string join_path(std::string_view folder, std::string_view name);

inline bool is_hidden(std::string_view name) { return name.starts_with('.'); }

/// Whether `text` holds `*`, `?` or a closed `[...]`.
bool has_wildcard(std::string_view text);

/// Whether one file name matches one segment of a pattern (no `/` in either). `*` is any run of
/// characters, `?` one character (a UTF-8 sequence; a byte where it is none), `[a-z]`, `[!a-z]` and
/// `[^a-z]` one of a set; a `]` that comes first belongs to the set and a `[` that is not closed
/// stands for itself, as a backslash does. A leading dot is matched only by a dot.
bool matches_segment(std::string_view segment, std::string_view name);

/// The files that match a pattern, one after the other, each once, in byte order of their paths.
/// Folders are not files. Hidden names are skipped where their segment does not begin with a dot,
/// always by `**`. `**` goes through linked folders, but never round in a circle (LinkGuard). A
/// segment that holds `[...]` and is the very name of an entry means that entry. Memory: the
/// listings of the folders between the root and the current match.
class GlobWalk {
 public:
  struct Match {
    std::string path;                ///< a file, or the folder that could not be listed
    std::optional<ErrorCode> error;  ///< unreadable (a folder), not_found (a link to nothing)
    std::string message;
  };

  explicit GlobWalk(std::string_view pattern, NameOrder order = NameOrder::bytes);
  /// Of what lies in `folder`.
  GlobWalk(std::string folder, std::string_view pattern, NameOrder order);
  /// The next match, or nothing at the end.
  std::optional<Match> next();

 private:
  enum class SegmentKind { literal, wildcard, any_depth };
  struct Segment {
    std::string text;
    SegmentKind kind = SegmentKind::literal;
  };
  /// A segment that the entries of a folder are compared with; several at once below `**`.
  struct State {
    std::size_t segment = 0;
    bool verbatim = false;  ///< its text is compared as it is
  };
  struct Frame {
    std::string folder;  ///< "" for the working directory
    std::vector<State> states;
    std::vector<FolderEntry> entries;
    std::size_t next_entry = 0;
  };
  struct Step;

  static SegmentKind kind_of(std::string_view segment);
  std::optional<Match> enter(std::string folder, const std::vector<std::size_t>& segments);
  Step step(const Frame& frame, const FolderEntry& entry);

  NameOrder order_;
  std::vector<Segment> segments_;
  std::vector<Frame> frames_;
  std::vector<FolderId> ancestors_;  ///< of `frames_`, one each
  LinkGuard guard_;
  std::optional<Match> first_failure_;
};

}  // namespace hydrascope::app
