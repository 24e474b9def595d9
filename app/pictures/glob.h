// Patterns that name files: `*`, `?`, `[...]` inside a segment, `**` for any number of folders. For
// shells that did not expand them (quoted, or more files than an argument list holds).
#pragma once

#include "app/pictures/folder_listing.h"
#include "kernels/error.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// Whether `text` holds `*`, `?` or a closed `[...]`.
bool has_wildcard(std::string_view text);

/// Whether one file name matches one segment of a pattern (no `/` in either). `*` is any run of
/// characters, `?` one character (a UTF-8 sequence; a byte where it is none), `[a-z]`, `[!a-z]` and
/// `[^a-z]` one of a set; a `]` that comes first belongs to the set and a `[` that is not closed
/// stands for itself, as a backslash does. A leading dot is matched only by a dot.
bool matches_segment(std::string_view segment, std::string_view name);

/// The files that match a pattern, one after the other, each once, in byte order of their paths.
/// Folders are not files. Hidden names are skipped where their segment does not begin with a dot,
/// always by `**`. `**` goes through linked folders, but never round in a circle (LinkGuard), nor to
/// a folder above the one where it begins. The only `**` of a pattern comes by every folder once: links
/// into the folder where it begins are not followed. A segment that holds `[...]` and is the very name of an entry means that entry. Memory: the
/// listings of the folders between the root and the current match.
class GlobWalk {
 public:
  struct Match {
    std::string path;                ///< a file, or the folder that could not be listed
    std::optional<ErrorCode> error;  ///< unreadable, not_found (a link to nothing)
    std::string message;
    bool is_folder = false;  ///< one that could not be listed
    bool is_link = false;
  };

  explicit GlobWalk(std::string_view pattern);
  /// Walks `folder`. Links into `whole`, which others walk, are not followed.
  GlobWalk(std::string folder, std::string_view pattern, const std::filesystem::path& whole = {});
  /// The next match, or nothing at the end.
  std::optional<Match> next();
  /// Links that were not followed.
  [[nodiscard]] const PassedBy& passed_links() const noexcept { return passed_links_; }

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
    bool is_linked = false;  ///< lies behind a link that the only `**` went through
  };
  struct Step;

  static SegmentKind kind_of(std::string_view segment);
  std::optional<Match> enter(std::string folder, const std::vector<std::size_t>& segments,
                             bool is_linked);
  Step step(const Frame& frame, const FolderEntry& entry);
  bool may_follow(const std::string& link);

  std::filesystem::path whole_;  ///< without links; empty: none
  bool is_whole_given_;
  bool has_one_any_depth_ = false;
  std::vector<Segment> segments_;
  std::vector<Frame> frames_;
  std::vector<FolderId> above_;      ///< the folders above the first frame's
  std::vector<FolderId> ancestors_;  ///< of `frames_`, one each
  LinkGuard guard_;
  PassedBy passed_links_;
  std::optional<Match> first_failure_;
};

}  // namespace hydrascope::app
