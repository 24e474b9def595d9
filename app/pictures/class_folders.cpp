// The contents of a labelled set's folders.
#include "app/pictures/folder_listing.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "app/results/file_extension.h"
#include "app/run/terminal_text.h"
#include "app/run/words.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

LabelledPicture labelled_picture(const Input& input, std::int64_t target) {
  LabelledPicture picture{input.path.empty() ? std::filesystem::path(input.given) : input.path,
                          target};
  picture.error = input.error;
  picture.message = input.message;
  return picture;
}

void add_class_folder(const std::filesystem::path& folder, std::int64_t target, LabelledSet& set) {
  // A link to the set itself would give all its pictures this class.
  const auto id = folder_id(folder);
  if (id && std::ranges::count(folders_above(folder), *id) > 0) {
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

void add_beside_classes(const std::filesystem::path& folder, LabelledSet& set) {
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
  if (!empty_folders.empty()) {
    constexpr std::size_t kNamed = 5;
    std::vector<std::string> names;
    for (const std::string& name : empty_folders)
      if (names.size() < kNamed) names.push_back(printable(name));
    if (empty_folders.size() > kNamed)
      names.push_back(std::to_string(empty_folders.size() - kNamed) + " more");
    notes.push_back("note: folders of classes without pictures: " +
                    join_words(names, ", ", " and "));
  }
  return notes;
}

}  // namespace hydrascope::app
