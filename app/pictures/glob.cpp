#include "app/pictures/glob.h"

#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
#include <locale.h>
#include <utility>

namespace hydrascope::app {

namespace {

/// Position of the `]` that closes the set opened at `open`, or npos.
std::size_t closing_bracket(std::string_view pattern, std::size_t open) {
  std::size_t first = open + 1;
  if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
  return first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
}

/// Whether a walk through `whole` comes by where `link` leads.
bool is_walked_in(const std::filesystem::path& whole, const std::string& link) {
  if (whole.empty()) return false;
  std::error_code ignored;
  const std::filesystem::path inside =
      std::filesystem::canonical(link, ignored).lexically_relative(whole);
  return !inside.empty() && std::none_of(inside.begin(), inside.end(), [](const auto& part) {
    return is_hidden(part.native());  // ".." leads out of it
  });
}

}  // namespace

bool has_wildcard(std::string_view text) {
  for (std::size_t position = 0; position < text.size(); ++position) {
    if (text[position] == '*' || text[position] == '?') return true;
    if (text[position] != '[') continue;
    const std::size_t close = closing_bracket(text, position);
    if (close != std::string_view::npos &&
        text.substr(position, close - position).find('/') == std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool matches_segment(std::string_view segment, std::string_view name) {
  if (segment.find('\0') != std::string_view::npos) return false;  // no name holds a zero byte
  // To fnmatch "[." begins something even where it does not end.
  std::string pattern;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    const std::size_t close = segment[i] == '[' ? closing_bracket(segment, i) : i;
    if (close == std::string_view::npos) {
      pattern += "[[]";
    } else {
      pattern += segment.substr(i, close + 1 - i);
      i = close;
    }
  }
  // Characters are UTF-8's whatever locale the user has; without this one they are bytes.
  static const locale_t kUtf8 = ::newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
  const locale_t before = kUtf8 == nullptr ? nullptr : ::uselocale(kUtf8);
  const int result =
      ::fnmatch(pattern.c_str(), std::string(name).c_str(), FNM_NOESCAPE | FNM_PERIOD);
  if (before != nullptr) ::uselocale(before);
  return result == 0;
}

GlobWalk::SegmentKind GlobWalk::kind_of(std::string_view segment) {
  if (segment == "**") return SegmentKind::any_depth;
  return has_wildcard(segment) ? SegmentKind::wildcard : SegmentKind::literal;
}

GlobWalk::GlobWalk(std::string_view pattern)
    : GlobWalk(pattern.starts_with('/') ? "/" : "", pattern) {}

GlobWalk::GlobWalk(std::string folder, std::string_view pattern, const std::filesystem::path& whole)
    : is_whole_given_(!whole.empty()) {
  std::error_code ignored;
  if (is_whole_given_) whole_ = std::filesystem::canonical(whole, ignored);
  std::size_t begin = 0;
  while (begin <= pattern.size()) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
    const std::string_view text = pattern.substr(begin, end - begin);
    const bool repeats = !segments_.empty() && text == "**" && segments_.back().text == text;
    if (!text.empty() && !repeats) segments_.push_back({std::string(text), kind_of(text)});
    begin = end + 1;
  }
  if (segments_.empty()) return;
  above_ = folders_above(folder.empty() ? "." : folder);
  has_one_any_depth_ = std::ranges::count(segments_, SegmentKind::any_depth, &Segment::kind) == 1;
  first_failure_ = enter(std::move(folder), {0}, /*is_linked=*/false);
}

std::optional<GlobWalk::Match> GlobWalk::enter(std::string folder,
                                               const std::vector<std::size_t>& segments,
                                               bool is_linked) {
  Frame frame{.folder = std::move(folder), .states = {}, .entries = {}, .is_linked = is_linked};
  const auto add = [&frame](std::size_t segment) {
    const bool known = std::any_of(frame.states.begin(), frame.states.end(),
                                   [&](const State& state) { return state.segment == segment; });
    if (!known) frame.states.push_back({segment});
  };
  for (std::size_t segment : segments) {
    add(segment);
    // `**` also stands for no folder at all.
    const bool skippable = segments_[segment].kind == SegmentKind::any_depth;
    if (skippable && segment + 1 < segments_.size()) add(segment + 1);
  }

  const std::string path = frame.folder.empty() ? "." : frame.folder;
  if (has_one_any_depth_ && !is_whole_given_) {
    const auto is_in_any_depth = [&](const State& state) {
      return segments_[state.segment].kind == SegmentKind::any_depth;
    };
    const bool was_in =
        !frames_.empty() && std::ranges::any_of(frames_.back().states, is_in_any_depth);
    std::error_code ignored;
    if (!was_in && std::ranges::any_of(frame.states, is_in_any_depth))
      whole_ = std::filesystem::canonical(path, ignored);
  }
  const Segment& only = segments_[frame.states.front().segment];
  if (frame.states.size() == 1 && only.kind == SegmentKind::literal) {
    if (auto entry = find_entry(path, only.text)) frame.entries.push_back(std::move(*entry));
  } else {
    try {
      frame.entries = list_folder(path);
    } catch (const Error& error) {
      return Match{path, error.code(), error.what(), /*is_folder=*/true};
    }
  }
  for (State& state : frame.states) {
    const Segment& segment = segments_[state.segment];
    const auto is_named = [&](const FolderEntry& entry) { return entry.name == segment.text; };
    state.verbatim = segment.kind == SegmentKind::literal ||
                     (segment.text.find('[') != std::string::npos &&
                      std::any_of(frame.entries.begin(), frame.entries.end(), is_named));
  }
  frames_.push_back(std::move(frame));
  ancestors_.push_back(folder_id(path).value_or(FolderId{}));
  return std::nullopt;
}

/// The meaning of one entry of a folder for the pattern.
struct GlobWalk::Step {
  bool is_match = false;
  std::vector<std::size_t> inside;  ///< segments to compare the entry's own entries with
  bool is_linked = false;           ///< see Frame
};

bool GlobWalk::may_follow(const std::string& link) {
  const auto target = folder_id(link);
  if (!target || std::find(above_.begin(), above_.end(), *target) != above_.end() ||
      is_walked_in(whole_, link))
    return false;
  return guard_.may_follow(*target, ancestors_);
}

GlobWalk::Step GlobWalk::step(const Frame& frame, const FolderEntry& entry) {
  Step result;
  const bool is_folder = entry.kind == EntryKind::folder;
  // Asked once an entry, because the guard says yes to a link only once.
  std::optional<bool> may_descend;
  const auto descends = [&] {
    if (!may_descend) {
      const std::string link = join_path(frame.folder, entry.name);
      may_descend = may_follow(link);
      if (!*may_descend) passed_links_.add(link);
    }
    return *may_descend;
  };
  for (const State& state : frame.states) {
    const Segment& segment = segments_[state.segment];
    const bool is_last = state.segment + 1 == segments_.size();
    if (segment.kind == SegmentKind::any_depth) {
      if (is_hidden(entry.name)) continue;
      if (!is_folder) {
        result.is_match = result.is_match || is_last;
      } else if ((!entry.is_link && !frame.is_linked) || descends()) {
        result.inside.push_back(state.segment);
        result.is_linked = has_one_any_depth_ && (entry.is_link || frame.is_linked);
      }
    } else if (state.verbatim ? segment.text == entry.name
                              : matches_segment(segment.text, entry.name)) {
      if (is_last) {
        result.is_match = result.is_match || !is_folder;
      } else if (is_folder) {
        result.inside.push_back(state.segment + 1);
      }
    }
  }
  return result;
}

std::optional<GlobWalk::Match> GlobWalk::next() {
  if (first_failure_) return std::exchange(first_failure_, std::nullopt);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next_entry == frame.entries.size()) {
      frames_.pop_back();
      ancestors_.pop_back();
      continue;
    }
    const FolderEntry& entry = frame.entries[frame.next_entry++];
    const Step found = step(frame, entry);
    std::string path = join_path(frame.folder, entry.name);
    if (found.is_match) {
      if (entry.kind != EntryKind::no_file) return Match{std::move(path), {}, {}};
      return Match{std::move(path), entry.error, entry.why, /*is_folder=*/false, entry.is_link};
    }
    if (!found.inside.empty()) {
      if (auto failure = enter(std::move(path), found.inside, found.is_linked)) return failure;
    }
  }
  return std::nullopt;
}

}  // namespace hydrascope::app
