// The contents of a labelled set's folders.
#include "app/pictures/folder_listing.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "app/results/file_extension.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

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
    } else if (has_video_extension(entry.name)) {
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
