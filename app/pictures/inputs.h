// The user's names -> one input after the other. Nothing is opened here but folders and lists.
#pragma once

#include "app/pictures/folder_listing.h"
#include "app/run/progress.h"
#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/image/video.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// 8-bit RGB, rows from top to bottom, `row_stride` bytes apart.
struct PixelRows {
  const std::uint8_t* rgb = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::ptrdiff_t row_stride = 0;
};

/// A picture that is in no file. `owner` keeps what is looked at alive; without one the asker does.
struct PictureInMemory {
  std::span<const std::byte> encoded = {};  ///< what a file would hold, where there are no `pixels`
  PixelRows pixels = {};
  std::shared_ptr<const void> owner = {};
};

/// The bytes of a file, and the nanoseconds from 1970 to its last change.
using FileStamp = std::array<std::int64_t, 2>;
inline constexpr FileStamp kNoStamp{-1, -1};

/// One input in the order the user gave them, or why there is none at that place.
struct Input {
  std::string given;  ///< the path as it appears in records
  std::filesystem::path path;
  bool is_video = false;
  /// not_found (missing path), empty (a folder or glob without images), unreadable.
  std::optional<ErrorCode> error;
  std::string message;                                 ///< text of the error
  std::shared_ptr<const PictureInMemory> memory = {};  ///< in the place of the file at `path`
  std::int64_t number = 0;                             ///< what its asker knows it by
  FileStamp stamp = kNoStamp;                          ///< where the asker took it
};
/// `kNoStamp` where the input is in no file.
FileStamp stamp_of(const Input& input);
Input file_input(std::string given, std::filesystem::path path);
Input failed_input(std::string given, std::filesystem::path path, ErrorCode code,
                   std::string message);

/// Gives those, then nothing; for `run_pipeline`.
std::function<std::optional<Input>()> one_by_one(std::vector<Input> inputs);

/// Files and links that a walk came by and that are no inputs.
struct PassedFiles {
  PassedBy
      links;  ///< to folders that lead back or are walked anyway, and such folders behind links
  PassedBy videos;    ///< which are read only where they are named
  PassedBy pictures;  ///< by their first bytes, but not by their names
  PassedFiles& operator+=(const PassedFiles& more);
  /// A line for people for each kind that there is.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// Expands files, folders (images in the order of their paths; sub-folders with `recursive`),
/// quoted globs with `*`, `?`, `[...]` and `**`, `@list.txt` (one path per line, relative to the
/// list's folder unless it exists as given; `#` is not a comment), `-` (one path per line on
/// `standard_input`, once, or a picture), `file:` addresses and video files. A name that exists is
/// that file, whatever characters it holds. A line of a list is a file or a folder, never a pattern
/// or another list.
///
/// A named file is taken whatever its extension; a found file must have a picture's extension, of
/// whatever format (`image::picture_formats`): a folder scan and `x/*` find, `x/*.mp4` names. Hidden
/// files and folders are not found. A failure at one place is an Input with an error there; only a
/// stop that ends a list in its middle is thrown, as Error(failed).
class InputStream {
 public:
  /// Links into `whole`, which others walk, are not followed. `standard_input`: in place of the process's.
  InputStream(std::vector<std::string> specs, bool recursive, std::filesystem::path whole = {},
              std::istream* standard_input = nullptr);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;
  /// All inputs, before the first is asked for; null where a word cannot be read ahead (standard input, a list
  /// that is a pipe).
  const std::vector<Input>* count();
  /// The next input, or nothing at the end.
  std::optional<Input> next();
  /// The files that walks have passed over so far. Those whose names say nothing are opened for it.
  [[nodiscard]] PassedFiles passed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The path that an address "file:///a%20b.jpg" names, "" where it is none or another machine's.
std::string path_of_address(std::string_view text);

/// Whether reading `word` once more changes nothing.
bool can_be_walked_twice(const std::string& word);

/// Throws Error(invalid_argument) where nothing is named, with `command` as its subject.
void require_inputs(const std::vector<std::string>& words, const std::string& command);

/// By extension, case-insensitive; of every known format, read or not.
bool has_image_extension(const std::filesystem::path& file);
/// Whether a link that leads nowhere may have led to inputs: it is named as a picture or a video, or has no
/// extension, as a folder.
bool may_have_led_to_inputs(const std::filesystem::path& link);

/// Gives `progress` the number of inputs and, once each video has told its frames, of these. There is no total where
/// inputs cannot be counted ahead.
class InputCount {
 public:
  InputCount(InputStream& inputs, Progress& progress);
  /// The first frame of a video has come.
  void add_video(const image::VideoFacts& video);

 private:
  void show();

  Progress& progress_;
  std::optional<std::int64_t> inputs_;
  std::int64_t videos_left_ = 0;
  bool are_frames_known_ = true;
};

}  // namespace hydrascope::app
