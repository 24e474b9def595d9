#include "app/pictures/inputs.h"

#include "app/pictures/file_extension.h"
#include "app/pictures/glob.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <ios>
#include <optional>
#include <span>
#include <sstream>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <utility>

namespace hydrascope::app {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMaxLength = 4096;  // PATH_MAX of Linux

}  // namespace

PathLines::PathLines(std::string given, std::istream& stream)
    : given_(std::move(given)), stream_(stream) {}

PathLines::PathLines(std::string given, std::unique_ptr<std::ifstream> file,
                     std::filesystem::path folder)
    : given_(std::move(given)),
      file_(std::move(file)),
      stream_(*file_),
      folder_(std::move(folder)) {}

std::optional<PathLines::Line> PathLines::next() try {
  while (auto line = read()) {
    if (std::exchange(is_first_, false) && line->text.starts_with(kByteOrderMark)) {
      line->text.erase(0, kByteOrderMark.size());
    }
    if (line->text.empty() || line->text == "\r") continue;
    produced_ = true;
    return line;
  }
  return std::nullopt;
} catch (const std::ios_base::failure&) {
  throw Error(ErrorCode::unreadable, "the list cannot be read", given_);
}

std::optional<PathLines::Line> PathLines::read() {
  using Traits = std::istream::traits_type;
  std::streambuf* buffer = stream_.rdbuf();
  const auto at_end = [](Traits::int_type byte) {
    return Traits::eq_int_type(byte, Traits::eof());
  };
  auto byte = buffer->sbumpc();
  if (at_end(byte)) return std::nullopt;
  Line line;
  for (; !at_end(byte) && byte != '\n'; byte = buffer->sbumpc()) {
    if (line.text.size() < kMaxLength) {
      line.text += Traits::to_char_type(byte);
    } else {
      line.too_long = true;
    }
  }
  return line;
}

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 16> kImageExtensions{
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff",
    ".bmp", ".dib",  ".gif", ".pnm",  ".ppm", ".pgm",  ".pbm", ".psd"};
constexpr std::array<std::string_view, 8> kVideoExtensions{".mp4",  ".mov", ".mkv", ".avi",
                                                           ".webm", ".m4v", ".mpg", ".mpeg"};

bool has_extension(const fs::path& file, std::span<const std::string_view> extensions) {
  return std::ranges::find(extensions, lower_extension(file)) != extensions.end();
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Whether the pattern's last segment ends in an extension without wildcards: such a pattern names
/// its files, others find them.
bool spells_extension(std::string_view pattern) {
  const std::string_view segment = pattern.substr(pattern.rfind('/') + 1);
  const std::size_t dot = segment.rfind('.');
  return dot != std::string_view::npos && dot + 1 < segment.size() &&
         segment.find_first_of("*?[]", dot) == std::string_view::npos;
}

/// The pictures that a pattern matches or a folder holds.
class PictureWalk {
 public:
  PictureWalk(const std::string& pattern, NameOrder order)
      : given_(pattern), glob_(pattern, order), take_all_(spells_extension(pattern)) {}
  /// `given` is what `folder` is called in records.
  PictureWalk(std::string given, fs::path folder, bool recursive, NameOrder order)
      : given_(std::move(given)),
        folder_(std::move(folder)),
        recursive_(recursive),
        glob_(folder_.native(), recursive ? "**" : "*", order) {}

  std::optional<Input> next() {
    while (auto match = glob_.next()) {
      const bool is_folder = match->error == ErrorCode::unreadable;
      if (!is_folder && !take_all_ && !has_image_extension(match->path)) continue;
      produced_ = true;
      std::string given = match->path;
      if (!folder_.empty()) given.replace(0, folder_.native().size(), given_);
      if (!match->error) return file_input(std::move(given), std::move(match->path));
      return failed_input(std::move(given), std::move(match->path), *match->error,
                          std::move(match->message));
    }
    if (std::exchange(produced_, true)) return std::nullopt;
    if (folder_.empty())
      return failed_input(given_, given_, ErrorCode::empty, "no picture matches this pattern");
    return failed_input(given_, folder_, ErrorCode::empty,
                        !recursive_ && has_subfolders(folder_)
                            ? "no pictures in this folder; --recursive looks into its sub-folders"
                            : "no pictures in this folder");
  }

 private:
  std::string given_;
  fs::path folder_;  ///< "" for a pattern
  bool recursive_ = false;
  GlobWalk glob_;
  bool take_all_ = false;
  bool produced_ = false;
};

}  // namespace

Input file_input(std::string given, fs::path path) {
  const bool is_video = has_video_extension(path);
  return {std::move(given), std::move(path), is_video, std::nullopt, {}};
}

Input failed_input(std::string given, fs::path path, ErrorCode code, std::string message) {
  return {std::move(given), std::move(path), false, code, std::move(message)};
}

void require_inputs(const std::vector<std::string>& words, const std::string& command) {
  if (!words.empty()) return;
  throw UsageError("no input given", command,
                   "name pictures, folders or globs; see `hydrascope help " + command + "`");
}

bool has_image_extension(const fs::path& file) { return has_extension(file, kImageExtensions); }
bool has_video_extension(const fs::path& file) { return has_extension(file, kVideoExtensions); }

/// At most one list and, inside it or alone, one walk are open at a time.
struct InputStream::State {
  State(std::vector<std::string> given_specs, bool is_recursive, std::istream& input,
        NameOrder found_order)
      : specs(std::move(given_specs)),
        recursive(is_recursive),
        standard_input(input),
        order(found_order) {}

  std::optional<Input> next() {
    for (;;) {
      if (walk) {
        if (auto input = walk->next()) return input;
        walk.reset();
      } else if (lines) {
        if (auto input = next_of_lines()) return input;
      } else if (next_spec < specs.size()) {
        if (auto input = open_spec(specs[next_spec++])) return input;
      } else {
        return std::nullopt;
      }
    }
  }

  // Each of the following gives one input, or opens what will give several, or closes what is done.

  std::optional<Input> next_of_lines() {
    try {
      if (auto line = lines->next()) return open_line(std::move(*line));
    } catch (const Error& error) {
      const auto failed = std::exchange(lines, nullptr);
      return failed_input(failed->given(), failed->given(), error.code(), error.what());
    }
    const auto finished = std::exchange(lines, nullptr);
    if (finished->produced()) return std::nullopt;
    return failed_input(finished->given(), finished->given(), ErrorCode::empty,
                        "the list holds no paths");
  }

  std::optional<Input> open_spec(const std::string& spec) {
    if (spec == "-") {
      if (std::exchange(standard_input_taken, true)) {
        return failed_input(spec, spec, ErrorCode::unreadable, "standard input is already in use");
      }
      lines = std::make_unique<PathLines>(spec, standard_input);
      return std::nullopt;
    }
    if (!is_there(spec)) {
      if (spec.starts_with('@')) return open_list(spec);
      if (has_wildcard(spec)) {
        walk.emplace(spec, order);
        return std::nullopt;
      }
    }
    return open_path(spec, spec);
  }

  std::optional<Input> open_list(const std::string& spec) {
    const fs::path list = spec.substr(1);
    std::error_code ignored;
    if (!is_there(list)) {
      return failed_input(spec, list, ErrorCode::not_found, "the list does not exist");
    }
    auto file = std::make_unique<std::ifstream>(list, std::ios::binary);
    if (fs::is_directory(list, ignored) || !*file) {
      return failed_input(spec, list, ErrorCode::unreadable, "the list cannot be read");
    }
    lines = std::make_unique<PathLines>(spec, std::move(file), list.parent_path());
    return std::nullopt;
  }

  std::optional<Input> open_line(PathLines::Line line) {
    if (line.too_long) {
      return failed_input(line.text, {}, ErrorCode::not_found, "a line too long to be a path");
    }
    // A carriage return may end a line or, on Linux, a name: the file system decides.
    fs::path path = locate(line.text);
    if (line.text.ends_with('\r') && !is_there(path)) {
      line.text.pop_back();
      path = locate(line.text);
    }
    return open_path(std::move(line.text), std::move(path));
  }

  fs::path locate(const std::string& text) const {
    const fs::path beside_list = lines->folder() / text;
    return !is_there(text) && is_there(beside_list) ? beside_list : fs::path(text);
  }

  std::optional<Input> open_path(std::string given, fs::path path) {
    if (given.find('\0') != std::string::npos) {
      return failed_input(std::move(given), {}, ErrorCode::not_found, "a path with a zero byte");
    }
    std::error_code error;
    const fs::file_type type = fs::status(path, error).type();
    if (type == fs::file_type::directory) {
      walk.emplace(std::move(given), std::move(path), recursive, order);
      return std::nullopt;
    }
    if (type == fs::file_type::not_found || error == std::errc::filename_too_long) {
      std::error_code ignored;
      const bool is_link = fs::is_symlink(path, ignored);
      return failed_input(
          std::move(given), std::move(path), ErrorCode::not_found,
          is_link ? "a link to a file that does not exist" : "no such file or folder");
    }
    if (error) {
      return failed_input(std::move(given), std::move(path), ErrorCode::unreadable,
                          error.message());
    }
    return file_input(std::move(given), std::move(path));
  }

  std::vector<std::string> specs;
  bool recursive;
  std::istream& standard_input;
  NameOrder order;
  std::size_t next_spec = 0;
  bool standard_input_taken = false;
  std::unique_ptr<PathLines> lines;
  std::optional<PictureWalk> walk;
};

InputStream::InputStream(std::vector<std::string> specs, bool recursive,
                         std::istream& standard_input, NameOrder order)
    : state_(std::make_unique<State>(std::move(specs), recursive, standard_input, order)) {}
InputStream::~InputStream() = default;

std::optional<Input> InputStream::next() { return state_->next(); }

namespace {

/// Whether reading `word` once more changes nothing.
bool can_be_walked_twice(const std::string& word) {
  namespace fs = std::filesystem;
  if (word == "-") return false;
  std::error_code ignored;
  if (fs::exists(word, ignored) || !word.starts_with('@')) return true;
  return fs::is_regular_file(word.substr(1), ignored);
}

std::optional<std::int64_t> count_inputs(const std::stop_token& stop,
                                         const std::vector<std::string>& words, bool recursive,
                                         const std::function<bool(std::int64_t)>& takes) {
  std::istringstream nothing;
  InputStream inputs(words, recursive, nothing);
  std::int64_t count = 0;
  for (std::int64_t number = 0; const std::optional<Input> input = inputs.next(); ++number) {
    if (stop.stop_requested() || input->is_video) return std::nullopt;
    if (!takes || takes(number)) ++count;
  }
  return count;
}

}  // namespace

InputCount::InputCount(std::vector<std::string> words, bool recursive, Progress& progress,
                       std::function<bool(std::int64_t)> takes)
    : words_(std::move(words)),
      recursive_(recursive),
      progress_(progress),
      takes_(std::move(takes)) {}

InputCount::~InputCount() = default;

void InputCount::begin() {
  if (std::exchange(begun_, true) || !progress_.is_shown()) return;
  std::error_code ignored;
  if (words_.size() == 1 && std::filesystem::is_regular_file(words_.front(), ignored)) return;
  if (!std::ranges::all_of(words_, can_be_walked_twice)) return;
  counter_ = std::jthread([this](const std::stop_token& stop) {
    if (const auto count = count_inputs(stop, words_, recursive_, takes_))
      progress_.set_total(*count);
  });
}

}  // namespace hydrascope::app
