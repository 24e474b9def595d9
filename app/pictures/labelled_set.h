// A labelled set of pictures: files and the class index of each.
#pragma once

#include "model/image/labels.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::app {

inline constexpr std::int64_t kNoClass = -1;

struct LabelledPicture {
  std::filesystem::path file;
  std::int64_t target = kNoClass;        ///< 0-based index among the model's classes
  std::vector<std::int64_t> valid = {};  ///< of `has_real_labels`: all labels that are right
};

struct LabelledSet {
  std::vector<LabelledPicture> pictures;
  bool has_labels = true;  ///< every picture has a target, or none
  bool has_real_labels = false;
  /// How classes were told from folders or columns, for messages: "folders are synset ids".
  std::string rule;
  bool is_by_order = false;  ///< of the folders, none of which has a class's name
};

inline constexpr const char* kHintOfEvaluation =
    "name the classes of the folders with --class-map FILE; pictures without labels: --no-labels "
    "--recursive";

/// The folders of `folder` in the order that numbers classes, hidden ones left out.
std::vector<std::filesystem::path> class_folders(const std::filesystem::path& folder);

/// One folder per class: the folder's name is a synset id or a class name of `labels`; when no
/// folder matches, the sorted order of the folders is the class index, provided there are as many
/// as classes. Throws Error(invalid_argument) that names folders that match nothing, with `hint`
/// where none matches, Error(empty) without pictures.
LabelledSet read_folder_classes(const std::filesystem::path& folder, const image::Labels& labels,
                                const std::string& hint = kHintOfEvaluation);

/// `--labels-csv`: a header naming a file column (file, filename, image) and a 0-based index column
/// (class_index, label, index) or an id column (synset, id), or a column of any number of valid
/// indices or ids with blanks between them (real_labels, real, labels), or both. Paths are relative
/// to `folder`. RFC 4180 quoting.
LabelledSet read_labels_csv(const std::filesystem::path& csv, const std::filesystem::path& folder,
                            const image::Labels& labels);

// Several valid labels per picture ("ReaL", Beyer et al. 2020, Are we done with ImageNet?, arXiv
// 2006.07159).

/// Gives the pictures of `set` the lists of `file`, a JSON array of arrays of class indices, one a
/// picture; an empty one where no class is valid. ImageNet's validation pictures
/// (ILSVRC2012_val_00000042.JPEG) find theirs by number, in any order and any part of the set; of
/// other pictures there must be as many as lists, in the set's order. Throws
/// Error(invalid_argument).
void read_real_labels(const std::filesystem::path& file, std::int64_t num_classes,
                      LabelledSet& set);

}  // namespace hydrascope::app
