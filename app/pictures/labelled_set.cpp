#include "app/pictures/labelled_set.h"

#include "app/pictures/class_words.h"
#include "app/pictures/folder_listing.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "model/image/picture_formats.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

/// timm's order of folders: text in lower case (ASCII) and numbers in turns. A number is compared by
/// its length without zeros in front, then by its digits.
std::vector<std::string> natural_key(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<std::string> key;
  while (true) {
    const std::size_t begin = std::min(name.find_first_of(kDigits), name.size());
    key.push_back(small_letters(name.substr(0, begin)));
    name.remove_prefix(begin);
    if (name.empty()) return key;
    std::string_view number = name.substr(0, name.find_first_not_of(kDigits));
    name.remove_prefix(number.size());
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    key.push_back(static_cast<char>(number.size()) + std::string(number));
  }
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
  const auto other_way = [&](const char* lines) {
    return hint.empty()
               ? std::string("`class_map` FILE names the classes after the folders, ") + lines
               : hint;
  };
  if (all_are_numbers && !name_of_index.empty()) {
    const bool from_one = !name_of_index.contains(0) && unknown.size() == 1 &&
                          unknown.front() == std::to_string(labels.size());
    const std::string seq = from_one && hint.empty() ? " (seq " + unknown.front() + " > FILE)" : "";
    throw UsageError("folders named by numbers are classes from 0 to " +
                         std::to_string(labels.size() - 1) + ", found " +
                         (from_one ? "folders that count from 1 to " : "") + some_of(unknown),
                     subject, other_way("line by line") + seq);
  }
  if (unknown.size() == folders.size())
    throw UsageError("no folder is named after a class of the model, found " + some_of(unknown),
                     subject,
                     other_way("one a line in the model's order; pictures without labels: "
                               "`no_labels` `recursive`"));
  throw UsageError("folders that name no class, or more than one: " + some_of(unknown), subject,
                   kClassMap);
}

[[noreturn]] void refuse_labels(const std::string& what) {
  throw UsageError(what, "`label_folders`",
                   "name the folder whose folders are the classes; train, val, validation and "
                   "test of a set go together");
}

/// Absolute, with a name at its end.
fs::path plain_folder(const fs::path& folder) {
  return fs::absolute(folder / ".").lexically_normal().parent_path();
}

bool is_split(const fs::path& folder) {
  return std::ranges::count(kSplits, folder.filename().string()) > 0;
}

/// `classes` are plain folders.
void refuse_ambiguous(const std::set<fs::path>& classes) {
  std::map<std::string, fs::path> by_name;
  for (const fs::path& folder : classes) {
    const fs::path& other = by_name.emplace(folder.filename().string(), folder).first->second;
    if (other != folder && !(is_split(other.parent_path()) && is_split(folder.parent_path())))
      refuse_labels("one label for two folders, " + other.string() + " and " + folder.string());
    for (fs::path above = folder.parent_path(); above.has_filename(); above = above.parent_path())
      if (classes.contains(above))
        refuse_labels("a class in a class, " + folder.string() + " in " + above.string());
  }
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
  std::ranges::sort(folders, {}, [](const fs::path& each) {
    const std::string name = each.filename().string();
    return std::pair(natural_key(name), name);
  });
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
    if (!input->error && (input->is_video || input->memory)) {
      // `compare` and its sisters look at a picture more than once, in its file.
      input->error = ErrorCode::unsupported_format;
      input->message =
          input->is_video ? "is a video; " + command + " takes pictures"
                          : "standard input is a picture; " + command + " takes the names of files";
    }
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

LabelledPicture labelled_picture(const Input& input, std::int64_t target) {
  LabelledPicture picture{input.path.empty() ? fs::path(input.given) : input.path, target};
  picture.error = input.error;
  picture.message = input.message;
  return picture;
}

void add_class_folder(const fs::path& folder, std::int64_t target, LabelledSet& set) {
  // A link to the set itself would give all its pictures this class.
  std::error_code error;
  if (is_within(fs::canonical(folder.parent_path(), error), fs::canonical(folder, error))) {
    set.passed.links.add(folder.native());
    return;
  }
  InputStream walk({folder.string()}, /*recursive=*/true, folder.parent_path());
  while (const auto input = walk.next()) {
    if (input->error == ErrorCode::empty) {
      set.empty_folders.push_back(folder.filename().string());
    } else {
      set.pictures.push_back(labelled_picture(*input, target));
    }
  }
  set.passed += walk.passed();
}

void add_beside_classes(const fs::path& folder, LabelledSet& set) {
  for (const FolderEntry& entry : list_folder(folder)) {
    if (is_hidden(entry.name) || entry.kind == EntryKind::folder) continue;
    const std::string path = join_path(folder.native(), entry.name);
    if (has_image_extension(entry.name)) {
      set.beside_classes.add(path);
    } else if (entry.kind == EntryKind::no_file) {
      if (entry.is_link && may_have_led_to_inputs(entry.name))
        set.pictures.push_back(labelled_picture(failed_input(path, path, entry.error, entry.why)));
    } else if (image::is_named_as_video(entry.name)) {
      set.passed.videos.add(path);
    }
  }
}

std::vector<LabelledInput> read_folder_labels(const std::vector<std::string>& words, bool recursive,
                                              std::vector<std::string>& notes,
                                              std::istream* standard_input) {
  std::vector<LabelledInput> labelled;
  std::set<fs::path> classes;
  const auto add = [&](const Input& input, const fs::path& folder) {
    std::string& label = labelled.emplace_back(input, "").second;
    if (input.error) return;
    label = classes.insert(plain_folder(folder)).first->filename().string();
    image::require_class_name(label, input.given);
  };
  std::set<std::string> named;  // after the folders of files, not below a set
  LabelledSet set;
  const auto add_pictures = [&](const fs::path& folder) {
    for (const LabelledPicture& picture : set.pictures) add(input_of(picture), folder);
    set.pictures.clear();
  };
  constexpr const char* kUnclear = " holds folders: a class, or a set of classes?";
  for (const std::string& word : words) {
    if (std::error_code ignored; !fs::is_directory(word, ignored) || !has_subfolders(word)) {
      InputStream inputs({word}, recursive, {}, standard_input);
      while (const auto input = inputs.next()) {
        add(*input, input->path.parent_path());
        if (!input->error) named.insert(labelled.back().second);
      }
      set.passed += inputs.passed();
      continue;
    }
    if (words.size() > 1 && !is_split(plain_folder(word))) refuse_labels(word + kUnclear);
    for (const fs::path& folder : class_folders(word)) {
      if (is_split(folder) && has_subfolders(folder)) refuse_labels(folder.string() + kUnclear);
      add_class_folder(folder, kNoClass, set);
      add_pictures(folder);
    }
    add_beside_classes(word, set);
    add_pictures(word);
  }
  refuse_ambiguous(classes);
  notes = set.notes();
  if (!named.empty())
    notes.push_back("note: the label of a file is the folder that it lies in: " +
                    printable(some_of({named.begin(), named.end()}, 5)));
  return labelled;
}

std::size_t LabelledSet::readable() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pictures, [](const LabelledPicture& picture) { return !picture.error.has_value(); }));
}

std::vector<std::string> LabelledSet::notes() const {
  std::vector<std::string> notes = passed.notes();
  if (beside_classes.count > 0) {
    notes.push_back(
        "note: pictures beside the folders of classes, which have no class and are left "
        "out: " +
        std::to_string(beside_classes.count) + ", the first is " + printable(beside_classes.first));
  }
  if (!empty_folders.empty())
    notes.push_back("note: folders of classes without pictures: " +
                    printable(some_of(empty_folders, 5)));
  return notes;
}

}  // namespace hydrascope::app
