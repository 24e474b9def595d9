// What the user named -> one input after the other. Nothing is opened here but
// folders and lists; nothing is kept but the listing of the folder being walked.
#pragma once

#include "app/pictures/folder_listing.h"
#include "kernels/error.h"

#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// One input in the order the user gave them, or why there is none at that place.
struct Input {
  std::string given;  ///< the path as it appears in records
  std::filesystem::path path;
  bool is_video = false;
  /// not_found (missing path), empty (a folder or glob without images), unreadable.
  std::optional<ErrorCode> error;
  std::string message;  ///< text of the error
};
Input file_input(std::string given, std::filesystem::path path);
Input failed_input(std::string given, std::filesystem::path path, ErrorCode code,
                   std::string message);

/// Expands files, folders (images in the order of their paths; sub-folders with `recursive`),
/// quoted globs with `*`, `?`, `[...]` and `**`, `@list.txt` (one path per line, relative to the
/// list's folder unless it exists as given; `#` is not a comment), `-` (one path per line on
/// `standard_input`, once) and video files. A name that exists is that file, whatever characters it
/// holds. A line of a list is a file or a folder, never a pattern or another list.
///
/// What is named is taken whatever its extension, what is found must have an image's: a folder scan
/// and `x/*` find, `x/*.mp4` names. Hidden files and folders are not found. What goes wrong at one
/// place is an Input with an error there; nothing is thrown.
class InputStream {
 public:
  /// `order` is that of what folders and globs find.
  InputStream(std::vector<std::string> specs, bool recursive, std::istream& standard_input,
              NameOrder order = NameOrder::bytes);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;
  /// The next input, or nothing at the end.
  std::optional<Input> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws Error(invalid_argument) where nothing is named, with `command` as its subject.
void require_inputs(const std::vector<std::string>& words, const std::string& command);

/// By extension, case-insensitive.
bool has_image_extension(const std::filesystem::path& file);
bool has_video_extension(const std::filesystem::path& file);

}  // namespace hydrascope::app
