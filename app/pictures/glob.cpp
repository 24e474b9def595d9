#include "app/pictures/glob.h"

#include "kernels/error.h"
#include "kernels/input_file.h"

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
#include <locale.h>
#include <set>
#include <system_error>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

/// Position of the `]` that closes the set opened at `open`, or npos.
std::size_t closing_bracket(std::string_view pattern, std::size_t open) {
  std::size_t first = open + 1;
  if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
  return first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
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

namespace {

constexpr std::string_view kAnyDepth = "**";

class FileFinder {
 public:
  FileFinder(std::string_view pattern, const fs::path& whole) : is_root_given_(!whole.empty()) {
    std::error_code ignored;
    if (is_root_given_) root_ = fs::canonical(whole, ignored);
    for (std::size_t begin = 0; begin <= pattern.size();) {
      const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
      const std::string text(pattern.substr(begin, end - begin));
      const bool repeats = text == kAnyDepth && !segments_.empty() && segments_.back() == text;
      if (!text.empty() && !repeats) segments_.push_back(text);
      begin = end + 1;
    }
    has_one_any_depth_ = std::ranges::count(segments_, kAnyDepth) == 1;
  }

  FoundFiles find(const std::string& folder) {
    if (!segments_.empty()) visit(folder, {0}, /*is_linked=*/false, /*was_any_depth=*/false);
    return std::move(found_);
  }

 private:
  /// Compares the entries of `folder` ("" is the working directory) with `segments`, several at once
  /// below `**`. `is_linked`: lies behind a link that the only `**` went through.
  void visit(const std::string& folder, std::set<std::size_t> segments, bool is_linked,
             bool was_any_depth) {
    throw_if_stopped();
    bool is_any_depth = false;
    for (const std::size_t segment : segments) {
      if (segments_[segment] != kAnyDepth) continue;
      is_any_depth = true;
      // `**` also stands for no folder at all.
      if (segment + 1 < segments_.size()) segments.insert(segment + 1);
    }
    const std::string path = folder.empty() ? "." : folder;
    std::error_code ignored;
    if (has_one_any_depth_ && !is_root_given_ && is_any_depth && !was_any_depth)
      root_ = fs::canonical(path, ignored);
    std::vector<FolderEntry> entries;
    const std::string& only = segments_[*segments.begin()];
    if (segments.size() == 1 && !has_wildcard(only)) {
      if (auto entry = find_entry(path, only)) entries.push_back(std::move(*entry));
    } else {
      try {
        entries = list_folder(path);
      } catch (const Error& error) {
        found_.files.push_back({path, error.code(), error.what(), /*is_folder=*/true});
        return;
      }
    }
    std::set<std::size_t> verbatim;
    for (const std::size_t segment : segments)
      if (!has_wildcard(segments_[segment]) ||
          (segments_[segment].find('[') != std::string::npos &&
           std::ranges::count(entries, segments_[segment], &FolderEntry::name) > 0))
        verbatim.insert(segment);

    for (const FolderEntry& entry : entries) {
      const std::string inner = join_path(folder, entry.name);
      const bool is_folder = entry.kind == EntryKind::folder;
      const bool is_behind_link = is_folder && (entry.is_link || is_linked);
      bool is_match = false;
      std::optional<bool> may_descend;  // asked once, because the answer is yes only once
      std::set<std::size_t> inside;
      for (const std::size_t segment : segments) {
        const std::string& text = segments_[segment];
        const bool is_last = segment + 1 == segments_.size();
        if (text == kAnyDepth) {
          if (is_hidden(entry.name)) continue;
          is_match = is_match || (is_last && !is_folder);
          if (!may_descend && is_folder) may_descend = !is_behind_link || may_follow(folder, inner);
          if (may_descend.value_or(false)) inside.insert(segment);
        } else if (verbatim.contains(segment) ? text == entry.name
                                              : matches_segment(text, entry.name)) {
          is_match = is_match || (is_last && !is_folder);
          if (is_folder && !is_last) inside.insert(segment + 1);
        }
      }
      if (is_match && entry.kind == EntryKind::no_file)
        found_.files.push_back({inner, entry.error, entry.why, /*is_folder=*/false, entry.is_link});
      else if (is_match)
        found_.files.push_back({inner});
      else if (!inside.empty())
        visit(inner, std::move(inside),
              has_one_any_depth_ && is_behind_link && may_descend.value_or(false), is_any_depth);
    }
  }

  bool may_follow(const std::string& folder, const std::string& link) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (!error) {
      const fs::path begin =
          root_.empty() ? fs::canonical(folder.empty() ? "." : folder, error) : root_;
      const fs::path inside = root_.empty() ? root_ : target.lexically_relative(root_);
      const bool is_walked_anyway =
          !inside.empty() && std::ranges::none_of(inside, [](const fs::path& part) {
            return is_hidden(part.native());  // ".." leads out of it
          });
      if (!is_within(begin, target) && !is_walked_anyway && followed_.insert(target).second)
        return true;
    }
    found_.passed_links.add(link);
    return false;
  }

  fs::path root_;  ///< canonical: the folder where the only `**` begins, or what others walk
  bool is_root_given_;
  bool has_one_any_depth_ = false;
  std::vector<std::string> segments_;
  std::set<fs::path> followed_;
  FoundFiles found_;
};

}  // namespace

FoundFiles find_files(std::string_view pattern) {
  return FileFinder(pattern, {}).find(pattern.starts_with('/') ? "/" : "");
}

FoundFiles find_files(const std::string& folder, std::string_view pattern, const fs::path& whole) {
  return FileFinder(pattern, whole).find(folder);
}

}  // namespace hydrascope::app
