#include "app/pictures/labelled_set.h"

#include "app/pictures/class_words.h"
#include "app/pictures/folder_listing.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

bool is_digit_of_name(char character) { return character >= '0' && character <= '9'; }

/// Takes what `text` begins with off it, as long as characters are digits or are none.
std::string_view take_run(std::string_view& text, bool of_digits) {
  const auto end = std::ranges::find_if(
      text, [&](char character) { return is_digit_of_name(character) != of_digits; });
  const std::string_view run = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(run.size());
  return run;
}

/// timm's order of folders: text in lower case (ASCII) and numbers in turns; equal ones by bytes.
bool natural_order(const fs::path& left, const fs::path& right) {
  const std::string names[] = {left.filename().string(), right.filename().string()};
  std::string_view a = names[0];
  std::string_view b = names[1];
  const auto lower = [](std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char letter) {
      return letter < 0x80 ? static_cast<char>(std::tolower(letter)) : static_cast<char>(letter);
    });
    return result;
  };
  while (!a.empty() || !b.empty()) {
    if (const int order = lower(take_run(a, false)).compare(lower(take_run(b, false))); order != 0)
      return order < 0;
    if (a.empty() || b.empty()) break;
    std::string_view number = take_run(a, true);
    std::string_view other = take_run(b, true);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    other.remove_prefix(std::min(other.find_first_not_of('0'), other.size()));
    if (number.size() != other.size()) return number.size() < other.size();
    if (number != other) return number < other;
  }
  return a.empty() && b.empty() ? names[0] < names[1] : a.empty();
}

/// The class of each folder. Throws Error(invalid_argument) where any has none.
struct FolderClasses {
  std::vector<std::int64_t> targets;
  bool are_indices = false;
};
FolderClasses classes_of_folders(const std::vector<fs::path>& folders, const image::Labels& labels,
                                 const std::string& subject, const std::string& hint) {
  const ClassWords words(labels);
  constexpr const char* kClassMap = "name them by synset id, or give `class_map` FILE";
  FolderClasses result;
  std::vector<std::string> named;
  std::vector<std::string> numbered;
  std::vector<std::string> unknown;
  std::map<std::int64_t, std::string> name_of_index;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    const auto [classes, is_name, is_index] = words.meaning_of(name);
    result.targets.push_back(classes.size() == 1 ? classes.front() : kNoClass);
    if (classes.empty()) {
      unknown.push_back(name);
    } else if (classes.size() > 1) {
      unknown.push_back(name + ", which is one of " + words.describe(classes));
    } else if (is_name != is_index) {
      (is_index ? numbered : named).push_back(name);
    }
    if (!is_index) continue;
    if (const auto [same, is_new] = name_of_index.emplace(classes.front(), name); !is_new) {
      throw UsageError("two folders are class " + std::to_string(same->first) + ": " +
                           same->second + " and " + name,
                       subject);
    }
  }
  result.are_indices = !numbered.empty();
  if (!named.empty() && !numbered.empty()) {
    throw UsageError("some folders have names of classes, others are numbers: " + some_of(numbered),
                     subject, kClassMap);
  }
  if (unknown.empty()) return result;
  const bool all_are_numbers = std::ranges::all_of(
      folders, [](const fs::path& folder) { return is_whole_number(folder.filename().string()); });
  if (all_are_numbers && !name_of_index.empty()) {
    const bool from_one = !name_of_index.contains(0) && unknown.size() == 1 &&
                          unknown.front() == std::to_string(labels.size());
    throw UsageError(
        "folders named by numbers are classes from 0 to " + std::to_string(labels.size() - 1) +
            ", found " + (from_one ? "folders that count from 1 to " : "") + some_of(unknown),
        subject,
        !hint.empty() ? hint
                      : "`class_map` FILE names the classes after the folders, line by line" +
                            std::string(from_one ? " (seq " + unknown.front() + " > FILE)" : ""));
  }
  if (unknown.size() == folders.size()) {
    throw UsageError(
        "no folder is named after a class of the model, found " + some_of(unknown), subject,
        !hint.empty() ? hint
                      : "`class_map` FILE names the classes after the folders, one a line in the "
                        "model's order; pictures without labels: `no_labels` `recursive`");
  }
  throw UsageError("folders that name no class, or more than one: " + some_of(unknown), subject,
                   kClassMap);
}

}  // namespace

std::vector<fs::path> class_folders(const fs::path& folder, const std::string& other_way) {
  std::vector<fs::path> folders;
  for (const FolderEntry& entry : list_folder(folder))
    if (entry.kind == EntryKind::folder && !is_hidden(entry.name))
      folders.push_back(folder / entry.name);
  if (folders.empty())
    throw UsageError("expected a folder per class, found no folders", folder.string(),
                     "sort the pictures into folders named after their classes" + other_way);
  std::ranges::sort(folders, natural_order);
  return folders;
}

LabelledSet read_folder_classes(const fs::path& folder, const image::Labels& labels,
                                const std::string& hint) {
  const std::vector<fs::path> folders =
      class_folders(folder, hint.empty() ? ", or give `labels_csv` FILE" : "");
  const FolderClasses classes = classes_of_folders(folders, labels, folder.string(), hint);
  LabelledSet set;
  set.is_by_index = classes.are_indices;
  set.rule = classes.are_indices ? "folders named by class index"
                                 : "folders named by synset id or class name";
  for (std::size_t i = 0; i < folders.size(); ++i) {
    add_class_folder(folders[i], classes.targets[i], set);
  }
  add_beside_classes(folder, set);
  if (set.pictures.empty())
    throw Error(ErrorCode::empty, "the class folders hold no pictures", folder.string());
  return set;
}

namespace {

/// `compare` and its sisters look at a picture more than once, in its file.
void refuse_what_is_no_file(Input& input, const std::string& command) {
  if (!input.is_video && !input.memory) return;
  input.error = ErrorCode::unsupported_format;
  input.message = input.is_video
                      ? "is a video; " + command + " takes pictures"
                      : "standard input is a picture; " + command + " takes the names of files";
}

}  // namespace

Input input_of(const LabelledPicture& picture) {
  return {picture.file.string(), picture.file, false, picture.error, picture.message};
}

void thin_out(LabelledSet& set, std::size_t count) {
  const std::size_t all = set.pictures.size();
  if (count >= all) return;
  for (std::size_t i = 0; i < count; ++i) set.pictures[i] = set.pictures[i * all / count];
  set.pictures.resize(count);
}

LabelledSet read_unlabelled(const std::vector<std::string>& words, bool recursive,
                            const std::string& command) {
  if (words.empty()) throw UsageError("name pictures or a folder of them", command);
  LabelledSet set;
  set.has_labels = false;
  set.rule = "none";
  InputStream inputs(words, recursive);
  std::optional<Input> misnamed;  // by the user
  while (std::optional<Input> input = inputs.next()) {
    if (!input->error) refuse_what_is_no_file(*input, command);
    set.pictures.push_back(labelled_picture(*input));
    const bool is_named = std::ranges::find(words, input->given) != words.end();
    if (input->error && is_named && !misnamed) misnamed = std::move(input);
  }
  set.passed = inputs.passed();
  if (set.readable() == 0 && misnamed) {
    if (misnamed->error == ErrorCode::not_found) throw NotFound(misnamed->message, misnamed->given);
    throw Error(*misnamed->error, misnamed->message, misnamed->given);
  }
  return set;
}

}  // namespace hydrascope::app
