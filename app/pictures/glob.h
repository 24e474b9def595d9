// Patterns that name files: `*`, `?`, `[...]` inside a segment, `**` for any number of folders. For
// shells that did not expand them (quoted, or more files than an argument list holds).
#pragma once

#include "app/pictures/folder_listing.h"
#include "kernels/error.h"

#include <filesystem>
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

/// One of a walk.
struct FoundFile {
  std::string path;                     ///< a file, or the folder that could not be listed
  std::optional<ErrorCode> error = {};  ///< unreadable, not_found (a link to nothing)
  std::string message = {};
  bool is_folder = false;  ///< one that could not be listed
  bool is_link = false;
};
struct FoundFiles {
  std::vector<FoundFile> files;
  PassedBy passed_links;  ///< links that were not followed
};

/// The files that a pattern matches, each once, in byte order of their paths. Folders are not files.
/// Hidden names are skipped where their segment does not begin with a dot, always by `**`. `**` goes
/// through linked folders, but to none twice, and never to a folder above the one where it begins. The
/// only `**` of a pattern comes by every folder once: links into the folder where it begins are not
/// followed. A segment that holds `[...]` and is the very name of an entry means that entry. Throws
/// Error(failed) once a stop is requested.
FoundFiles find_files(std::string_view pattern);
/// The same in `folder`. Links into `whole`, which others walk, are not followed.
FoundFiles find_files(const std::string& folder, std::string_view pattern,
                      const std::filesystem::path& whole);

}  // namespace hydrascope::app
