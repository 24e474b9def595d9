#include "app/pictures/inputs.h"

#include "app/pictures/glob.h"
#include "app/results/file_extension.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "kernels/input_file.h"
#include "model/image/picture_formats.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <istream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

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

/// Whether it begins as a picture does, whatever it is called.
bool begins_as_picture(const std::string& file) {
  const std::string head = InputFile(file).text(63);
  return image::format_of_bytes(std::as_bytes(std::span(head))) != nullptr;
}

/// The pictures that a pattern matches or a folder holds.
class PictureWalk {
 public:
  explicit PictureWalk(const std::string& pattern)
      : given_(pattern), found_(find_files(pattern)), take_all_(spells_extension(pattern)) {}
  /// `given` is what `folder` is called in records.
  PictureWalk(std::string given, fs::path folder, bool recursive, const fs::path& whole)
      : given_(std::move(given)),
        folder_(std::move(folder)),
        recursive_(recursive),
        found_(find_files(folder_.native(), recursive ? "**" : "*", whole)) {}

  std::optional<Input> next(PassedFiles& passed, std::vector<std::string>& unnamed) {
    while (next_ < found_.files.size()) {
      FoundFile& file = found_.files[next_++];
      if (!take_all_ && !is_input(file, passed, unnamed)) continue;
      produced_ = true;
      std::string given = file.path;
      if (!folder_.empty()) given.replace(0, folder_.native().size(), given_);
      if (!file.error) return file_input(std::move(given), std::move(file.path));
      return failed_input(std::move(given), std::move(file.path), *file.error,
                          std::move(file.message));
    }
    passed.links += std::exchange(found_.passed_links, {});
    if (std::exchange(produced_, true)) return std::nullopt;
    if (folder_.empty())
      return failed_input(given_, given_, ErrorCode::empty, "no picture matches this pattern");
    return failed_input(given_, folder_, ErrorCode::empty,
                        !recursive_ && has_subfolders(folder_)
                            ? "no pictures in this folder; `recursive` looks into its sub-folders"
                            : "no pictures in this folder");
  }

 private:
  /// `unnamed`: what may be a picture by its contents.
  static bool is_input(const FoundFile& file, PassedFiles& passed,
                       std::vector<std::string>& unnamed) {
    if (file.is_folder || has_image_extension(file.path)) return true;
    if (file.error) return file.is_link && may_have_led_to_inputs(file.path);
    if (image::is_named_as_video(file.path))
      passed.videos.add(file.path);
    else
      unnamed.push_back(file.path);
    return false;
  }

  std::string given_;
  fs::path folder_;  ///< "" for a pattern
  bool recursive_ = false;
  FoundFiles found_;
  std::size_t next_ = 0;
  bool take_all_ = false;
  bool produced_ = false;
};

/// A list of paths, a file or standard input: one path a line, or one before each zero byte where the
/// first 4 KiB hold one (`find -print0`). Empty ones are left out. Each is read when it is asked for, so
/// that a pipe's paths are worked on as they come. A byte order mark is dropped; a carriage return at the
/// end is kept (it may belong to the name). A line longer than any path is cut instead of kept.
class PathLines {
 public:
  struct Line {
    std::string text;
    bool too_long = false;  ///< `text` is only its beginning
  };
  enum class Content { paths, picture, other };

  /// `named` is what the user called the list; `stream` must outlive this.
  PathLines(std::string named, std::istream& stream) : given(std::move(named)), stream_(stream) {}
  /// A file, beside which its paths may be.
  PathLines(std::string named, std::unique_ptr<std::istream> file, fs::path beside)
      : given(std::move(named)),
        folder(std::move(beside)),
        file_(std::move(file)),
        stream_(*file_) {}

  /// By the first bytes, of which no more are waited for than tell. All of these throw
  /// Error(unreadable) when reading fails.
  Content content() {
    if (content_) return *content_;
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    std::string head;
    bool tells = false;
    // Bytes that have come already are taken, too.
    while (head.size() < kMaxLength && (!tells || stream_.rdbuf()->in_avail() > 0)) {
      const std::optional<char> byte = take();
      if (!byte) break;
      head += *byte;
      tells = tells || head.size() >= kTelling || *byte == '\n' || *byte == '\0';
    }
    const bool has_zero = head.find('\0') != std::string::npos;
    content_ = Content::paths;
    if (image::format_of_bytes(std::as_bytes(std::span(head))) != nullptr)
      content_ = Content::picture;
    else if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF") ||
             head.starts_with("%PDF-") || (has_zero && holds_controls(head)))
      content_ = Content::other;
    else if (head.starts_with(kByteOrderMark))
      taken_ = kByteOrderMark.size();
    if (has_zero) separator_ = '\0';
    head_ = std::move(head);
    return *content_;
  }

  /// Everything, of what holds no paths; one byte more than `most` where there are more.
  std::vector<std::byte> bytes(std::size_t most) {
    std::vector<std::byte> all;
    while (all.size() <= most) {
      const std::optional<char> byte = take();
      if (!byte) break;
      all.push_back(static_cast<std::byte>(*byte));
    }
    return all;
  }

  /// The next line, or nothing at the end.
  std::optional<Line> next() {
    while (std::optional<char> byte = take()) {
      Line line;
      for (; byte && *byte != separator_; byte = take()) {
        if (!produced && *byte == '\0') {
          separator_ = '\0';
          break;
        }
        line.too_long = line.text.size() == kMaxLength;
        if (!line.too_long) line.text += *byte;
      }
      if (line.text.empty() || line.text == "\r") continue;
      produced = true;
      return line;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_standard_input() const noexcept { return file_ == nullptr; }

  std::string given;
  fs::path folder = {};   ///< "" for standard input
  bool produced = false;  ///< there was a line

 private:
  static constexpr std::size_t kMaxLength = 4096;  // PATH_MAX of Linux
  static constexpr std::size_t kTelling = 64;      // bytes that tell every format

  /// Bytes of a program, not of names.
  static bool holds_controls(std::string_view head) {
    return std::ranges::any_of(head.substr(0, kTelling), [](unsigned char byte) {
      return byte < 0x20 && byte != '\0' && byte != '\t' && byte != '\n' && byte != '\r';
    });
  }
  std::optional<char> take() {
    if (taken_ < head_.size()) return head_[taken_++];
    const int byte = stream_.rdbuf()->sbumpc();
    if (byte == std::istream::traits_type::eof()) return std::nullopt;
    return std::istream::traits_type::to_char_type(byte);
  }

  std::unique_ptr<std::istream> file_ = {};
  std::istream& stream_;
  std::string head_ = {};  ///< what was read ahead
  std::size_t taken_ = 0;  ///< of it
  std::optional<Content> content_ = {};
  char separator_ = '\n';
};

/// The likely meaning of a path that names nothing.
std::string why_missing(const std::string& given) {
  const std::size_t colon = given.find(':');
  const std::string scheme = given.substr(0, colon);
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '+'; };
  const bool has_scheme =
      colon != std::string::npos && colon > 1 && std::ranges::all_of(scheme, is_letter);
  if (has_scheme && (given.substr(colon).starts_with("://") || given.starts_with("data:"))) {
    return "an address (" + scheme +
           ":), and no file: hydrascope fetches nothing; download it first";
  }
  return "no such file or folder";
}

}  // namespace

std::string path_of_address(std::string_view text) {
  constexpr std::string_view kScheme = "file:";
  if (small_letters(text.substr(0, kScheme.size())) != kScheme) return "";
  text.remove_prefix(kScheme.size());
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    if (text.starts_with("localhost/")) text.remove_prefix(text.find('/'));
  }
  if (!text.starts_with('/')) return "";
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned byte = 0;
    const bool is_escape =
        text[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr == digits.data() + 2;
    path += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return path.find('\0') == std::string::npos ? path : "";
}

FileStamp stamp_of(const Input& input) {
  struct stat file {};
  if (input.memory || ::stat(input.path.c_str(), &file) != 0 || !S_ISREG(file.st_mode))
    return kNoStamp;
  return {file.st_size, file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec};
}

Input file_input(std::string given, fs::path path) {
  const bool is_video = image::is_named_as_video(path);
  return {std::move(given), std::move(path), is_video, std::nullopt, {}};
}

Input failed_input(std::string given, fs::path path, ErrorCode code, std::string message) {
  return {std::move(given), std::move(path), false, code, std::move(message)};
}

std::function<std::optional<Input>()> one_by_one(std::vector<Input> inputs) {
  return [inputs = std::move(inputs), next = std::size_t{0}]() mutable -> std::optional<Input> {
    if (next == inputs.size()) return std::nullopt;
    return inputs[next++];
  };
}

bool can_be_walked_twice(const std::string& word) {
  if (word == "-") return false;
  std::error_code ignored;
  if (fs::exists(word, ignored) || !word.starts_with('@')) return true;
  return fs::is_regular_file(word.substr(1), ignored);
}

void require_inputs(const std::vector<std::string>& words, const std::string& command) {
  if (!words.empty()) return;
  throw UsageError("no input given", command,
                   "name pictures, folders or globs; see `hydrascope help " + command + "`");
}

bool has_image_extension(const fs::path& file) { return image::format_of_name(file) != nullptr; }
bool may_have_led_to_inputs(const fs::path& link) {
  return lower_extension(link).empty() || has_image_extension(link) ||
         image::is_named_as_video(link);
}

PassedFiles& PassedFiles::operator+=(const PassedFiles& more) {
  links += more.links;
  videos += more.videos;
  pictures += more.pictures;
  return *this;
}

std::vector<std::string> PassedFiles::notes() const {
  std::vector<std::string> notes;
  const auto add = [&](const PassedBy& passed, const char* one, const char* many) {
    if (passed.count == 0) return;
    notes.push_back(
        "note: " + (passed.count == 1 ? std::string(one) : std::to_string(passed.count) + many) +
        ": " + printable(passed.first) + (passed.count == 1 ? "" : ", ..."));
  };
  add(links, "not followed, a link to a folder that leads back or is walked anyway",
      " links were not followed, to folders that lead back or are walked anyway");
  add(videos, "passed over, a video in a folder, which is read only where it is named",
      " videos in folders were passed over, which are read only where they are named");
  add(pictures, "passed over, a file that begins as a picture and is not named as one; name it",
      " files were passed over that begin as pictures and are not named as such; name them");
  return notes;
}

/// At most one list and, inside it or alone, one walk are open at a time.
struct InputStream::State {
  State(std::vector<std::string> given_specs, bool is_recursive, fs::path whole_set,
        std::istream* input)
      : specs(std::move(given_specs)),
        recursive(is_recursive),
        whole(std::move(whole_set)),
        standard_input(input != nullptr ? *input : own_standard_input) {}

  std::optional<Input> next() {
    if (counted) {
      if (next_counted == counted->size()) return std::nullopt;
      return std::move((*counted)[next_counted++]);
    }
    for (;;) {
      if (walk) {
        if (auto input = walk->next(passed, unnamed)) return input;
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
      if (lines->content() != PathLines::Content::paths) {
        Input input = what_is_no_list(*lines);
        lines.reset();
        return input;
      }
      if (auto line = lines->next()) return open_line(std::move(*line));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::failed) throw;  // a stop: what has come is not the whole list
      const auto failed = std::exchange(lines, nullptr);
      return failed_input(failed->given, failed->given, error.code(), error.what());
    }
    const auto finished = std::exchange(lines, nullptr);
    if (finished->produced) return std::nullopt;
    return failed_input(finished->given, finished->given, ErrorCode::empty,
                        "the list holds no paths");
  }

  static Input what_is_no_list(PathLines& list) {
    const std::string& given = list.given;
    const bool is_picture = list.content() == PathLines::Content::picture;
    if (!is_picture || !list.is_standard_input()) {
      return failed_input(
          given, given, ErrorCode::unsupported_format,
          is_picture
              ? "the list is a picture; without the @ it is taken"
              : "neither a picture nor a list of paths in UTF-8; a video is read from a file");
    }
    constexpr std::size_t kMost = std::numeric_limits<int>::max();
    const auto owner = std::make_shared<const std::vector<std::byte>>(list.bytes(kMost));
    Input input = file_input(given, "stdin");
    input.memory = std::make_shared<PictureInMemory>(PictureInMemory{*owner, {}, owner});
    return input;
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
      if (has_wildcard(spec) && spec.find("://") == std::string::npos) {
        walk.emplace(spec);
        return std::nullopt;
      }
    }
    return open_path(spec, spec);
  }

  std::optional<Input> open_list(const std::string& spec) {
    const fs::path list = spec.substr(1);
    if (!is_there(list)) {
      return failed_input(spec, list, ErrorCode::not_found, "the list does not exist");
    }
    auto file = std::make_unique<InputFile>(list);
    if (!*file) {
      return failed_input(spec, list, ErrorCode::unreadable, "the list cannot be read");
    }
    lines = std::make_unique<PathLines>(spec, std::move(file), list.parent_path());
    return std::nullopt;
  }

  std::optional<Input> open_line(PathLines::Line line) {
    if (line.too_long) {
      const bool is_data = line.text.starts_with("data:");
      return failed_input(line.text, {}, ErrorCode::not_found,
                          is_data ? why_missing(line.text) : "a line too long to be a path");
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
    const fs::path beside_list = lines->folder / text;
    return !is_there(text) && is_there(beside_list) ? beside_list : fs::path(text);
  }

  std::optional<Input> open_path(std::string given, fs::path path) {
    if (given.find('\0') != std::string::npos) {
      return failed_input(std::move(given), {}, ErrorCode::not_found, "a path with a zero byte");
    }
    std::error_code error;
    fs::file_type type = fs::status(path, error).type();
    const std::string addressed =
        type == fs::file_type::not_found ? path_of_address(given) : std::string();
    if (!addressed.empty()) {
      path = addressed;
      type = fs::status(path, error).type();
    }
    if (type == fs::file_type::directory) {
      walk.emplace(std::move(given), std::move(path), recursive, whole);
      return std::nullopt;
    }
    if (type == fs::file_type::not_found || error == std::errc::filename_too_long) {
      std::error_code ignored;
      std::string why = fs::is_symlink(path, ignored) ? "a link to a file that does not exist"
                        : addressed.empty()           ? why_missing(given)
                                                      : "no such file or folder: " + addressed;
      return failed_input(std::move(given), std::move(path), ErrorCode::not_found, std::move(why));
    }
    if (error) {
      return failed_input(std::move(given), std::move(path), ErrorCode::unreadable,
                          error.message());
    }
    return file_input(std::move(given), std::move(path));
  }

  std::vector<std::string> specs;
  bool recursive;
  fs::path whole;
  InputFile own_standard_input{STDIN_FILENO};
  std::istream& standard_input;
  std::size_t next_spec = 0;
  bool standard_input_taken = false;
  std::unique_ptr<PathLines> lines;
  std::optional<PictureWalk> walk;
  PassedFiles passed;
  std::vector<std::string> unnamed;
  std::optional<std::vector<Input>> counted;
  std::size_t next_counted = 0;
};

InputStream::InputStream(std::vector<std::string> specs, bool recursive, fs::path whole,
                         std::istream* standard_input)
    : state_(
          std::make_unique<State>(std::move(specs), recursive, std::move(whole), standard_input)) {}
InputStream::~InputStream() = default;

std::optional<Input> InputStream::next() { return state_->next(); }

PassedFiles InputStream::passed() const {
  PassedFiles passed = state_->passed;
  for (const std::string& file : state_->unnamed)
    if (begins_as_picture(file)) passed.pictures.add(file);
  return passed;
}

const std::vector<Input>* InputStream::count() {
  if (!state_->counted) {
    if (!std::ranges::all_of(state_->specs, can_be_walked_twice)) return nullptr;
    std::vector<Input> all;
    while (std::optional<Input> input = state_->next()) all.push_back(std::move(*input));
    state_->counted = std::move(all);
  }
  return &*state_->counted;
}

InputCount::InputCount(InputStream& inputs, Progress& progress) : progress_(progress) {
  const std::vector<Input>* all = progress.is_shown() ? inputs.count() : nullptr;
  if (all == nullptr) return;
  inputs_ = std::ssize(*all);
  videos_left_ = std::ranges::count_if(
      *all, [](const Input& input) { return input.is_video && !input.error; });
  show();
}

void InputCount::add_video(const image::VideoFacts& video) {
  --videos_left_;
  if (inputs_) *inputs_ += video.num_read - 1;
  are_frames_known_ = are_frames_known_ && video.num_read > 0;
  show();
}

void InputCount::show() {
  if (inputs_.value_or(0) > 0 && are_frames_known_ && videos_left_ == 0)
    progress_.set_total(*inputs_);
}

}  // namespace hydrascope::app
