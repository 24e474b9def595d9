#include "app/glob.h"

#include "viz/utf8.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

/// One character of a name: a code point, or a stray byte lifted above all code points so that it
/// equals itself and lies in no range.
struct Character {
  std::uint32_t value = 0;
  std::size_t length = 1;
};

Character character_at(std::string_view text, std::size_t position) {
  const std::string_view rest = text.substr(position);
  const viz::CodePoint decoded = viz::first_code_point(rest);
  if (decoded.value == viz::kReplacementCharacter && !rest.starts_with(kReplacement))
    return {0x110000U + static_cast<unsigned char>(rest.front()), 1};
  return {decoded.value, decoded.bytes};
}

/// Position of the `]` that closes the set opened at `open`, or npos.
std::size_t closing_bracket(std::string_view pattern, std::size_t open) {
  std::size_t first = open + 1;
  if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
  return first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
}

/// `set` is what stands between the brackets.
bool in_set(std::string_view set, std::uint32_t value) {
  const bool negated = set.front() == '!' || set.front() == '^';
  bool found = false;
  for (std::size_t position = negated ? 1 : 0; position < set.size();) {
    const Character low = character_at(set, position);
    position += low.length;
    Character high = low;
    if (position + 1 < set.size() && set[position] == '-') {
      high = character_at(set, position + 1);
      position += 1 + high.length;
    }
    found = found || (low.value <= value && value <= high.value);
  }
  return found != negated;
}

struct ElementMatch {
  bool matched = false;
  std::size_t pattern_length = 0;
};

/// Compares the pattern's element at `position`, which is no `*`, with one character.
ElementMatch match_element(std::string_view pattern, std::size_t position, Character character) {
  if (pattern[position] == '?') return {true, 1};
  if (pattern[position] == '[') {
    const std::size_t close = closing_bracket(pattern, position);
    if (close != std::string_view::npos) {
      const auto set = pattern.substr(position + 1, close - position - 1);
      return {in_set(set, character.value), close + 1 - position};
    }
  }
  const Character expected = character_at(pattern, position);
  return {expected.value == character.value, expected.length};
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
  if (is_hidden(name) && !is_hidden(segment)) return false;
  // Only the last `*` is ever reconsidered: an earlier one that took more could not help, because
  // the later one can take whatever the earlier one left.
  constexpr auto kNoStar = std::string_view::npos;
  std::size_t star = kNoStar;
  std::size_t star_name = 0;
  std::size_t at = 0;
  std::size_t name_at = 0;
  while (name_at < name.size()) {
    const Character character = character_at(name, name_at);
    if (at < segment.size() && segment[at] == '*') {
      star = at++;
      star_name = name_at;
      continue;
    }
    if (at < segment.size()) {
      const ElementMatch element = match_element(segment, at, character);
      if (element.matched) {
        at += element.pattern_length;
        name_at += character.length;
        continue;
      }
    }
    if (star == kNoStar) return false;
    at = star + 1;
    star_name += character_at(name, star_name).length;
    name_at = star_name;
  }
  while (at < segment.size() && segment[at] == '*') ++at;
  return at == segment.size();
}

GlobWalk::SegmentKind GlobWalk::kind_of(std::string_view segment) {
  if (segment == "**") return SegmentKind::any_depth;
  return has_wildcard(segment) ? SegmentKind::wildcard : SegmentKind::literal;
}

GlobWalk::GlobWalk(std::string_view pattern, NameOrder order) : order_(order) {
  std::size_t begin = 0;
  while (begin <= pattern.size()) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
    const std::string_view text = pattern.substr(begin, end - begin);
    const bool repeats = !segments_.empty() && text == "**" && segments_.back().text == text;
    if (!text.empty() && !repeats) segments_.push_back({std::string(text), kind_of(text)});
    begin = end + 1;
  }
  if (!segments_.empty()) first_failure_ = enter(pattern.starts_with('/') ? "/" : "", {0});
}

std::optional<GlobWalk::Match> GlobWalk::enter(std::string folder,
                                               const std::vector<std::size_t>& segments) {
  Frame frame{.folder = std::move(folder), .states = {}, .entries = {}};
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
  const Segment& only = segments_[frame.states.front().segment];
  if (frame.states.size() == 1 && only.kind == SegmentKind::literal) {
    if (auto entry = find_entry(path, only.text)) frame.entries.push_back(std::move(*entry));
  } else {
    try {
      frame.entries = list_folder(path, order_);
    } catch (const Error& error) {
      return Match{path, error.code(), error.what()};
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

/// What one entry of a folder means for the pattern.
struct GlobWalk::Step {
  bool is_match = false;
  std::vector<std::size_t> inside;  ///< segments to compare the entry's own entries with
};

GlobWalk::Step GlobWalk::step(const Frame& frame, const FolderEntry& entry) {
  Step result;
  const bool is_folder = entry.kind == EntryKind::folder;
  // Asked once an entry, because the guard says yes to a link only once.
  std::optional<bool> may_descend;
  const auto descends = [&] {
    if (!may_descend) {
      const auto target = folder_id(join_path(frame.folder, entry.name));
      may_descend = target && guard_.may_follow(*target, ancestors_);
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
      } else if (!entry.is_link || descends()) {
        result.inside.push_back(state.segment);
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
      if (entry.kind != EntryKind::broken_link) return Match{std::move(path), {}, {}};
      return Match{std::move(path), ErrorCode::not_found, "a link to a file that does not exist"};
    }
    if (!found.inside.empty()) {
      if (auto failure = enter(std::move(path), found.inside)) return failure;
    }
  }
  return std::nullopt;
}

}  // namespace hydrascope::app
