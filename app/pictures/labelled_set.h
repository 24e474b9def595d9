// A labelled set of pictures: files and the class index of each.
#pragma once

#include "app/pictures/inputs.h"
#include "kernels/error.h"
#include "model/image/labels.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

inline constexpr std::int64_t kNoClass = -1;

struct LabelledPicture {
  std::filesystem::path file;
  std::int64_t target = kNoClass;        ///< 0-based index among the model's classes
  std::vector<std::int64_t> valid = {};  ///< of `has_real_labels`: all labels that are right
  /// Why there is nothing to read at `file`, which counts as a failed picture.
  std::optional<ErrorCode> error = {};
  std::string message = {};
};

struct LabelledSet {
  std::vector<LabelledPicture> pictures;
  bool has_labels = true;  ///< every picture has a target, or none
  bool has_real_labels = false;
  /// How classes were told from folders or columns, for messages: "folders are synset ids".
  std::string rule;
  bool is_by_index = false;  ///< the folders' names are class indices
  PassedFiles passed = {};
  PassedBy beside_classes = {};                 ///< pictures beside the class folders
  std::vector<std::string> empty_folders = {};  ///< class folders without a picture

  /// How many pictures are there to be read.
  [[nodiscard]] std::size_t readable() const;
  /// A line for people for each kind of what is in no folder of a class, or in a folder and no
  /// picture.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// The picture that an input is, or its failure.
LabelledPicture labelled_picture(const Input& input, std::int64_t target = kNoClass);

/// Pictures without labels: files, folders, globs and lists, as InputStream has them, with what fails;
/// videos and pictures on standard input do. Throws Error with `command` as its subject where `words`
/// name nothing, and the first word's failure where there is nothing else.
LabelledSet read_unlabelled(const std::vector<std::string>& words, bool recursive,
                            const std::string& command);

/// For a pipeline: a picture, whatever its name ends in.
Input input_of(const LabelledPicture& picture);

/// `count` of the pictures, evenly spread: sets are sorted by class.
void thin_out(LabelledSet& set, std::size_t count);

/// Adds what a class's folder holds, with the folders within, as torchvision and timm have it.
void add_class_folder(const std::filesystem::path& folder, std::int64_t target, LabelledSet& set);
/// Adds what lies beside the class folders: pictures as `beside_classes`, links to folders that are
/// not there as failures.
void add_beside_classes(const std::filesystem::path& folder, LabelledSet& set);

/// The names of the parts of a set, which have the same classes.
inline constexpr std::array<std::string_view, 4> kSplits{"train", "val", "validation", "test"};

using LabelledInput = std::pair<Input, std::string>;  ///< "" where there is no label

/// The inputs that words name; those that fail have no label. The classes of a named folder are its
/// folders, as in `read_folder_classes`; without any it is a class, as is the folder of a file, which a note says.
/// Throws Error(invalid_argument) where two folders, but those of `kSplits`, would be one label, a
/// class would lie in another, or one of several words may be a set or a class.
std::vector<LabelledInput> read_folder_labels(const std::vector<std::string>& words, bool recursive,
                                              std::vector<std::string>& notes,
                                              std::istream* standard_input = nullptr);

/// The folders of `folder`, hidden ones left out, in timm's natural order (2 before 10, small and
/// capital letters alike), which numbers the classes of a new classifier. Throws
/// Error(invalid_argument) where there are none.
std::vector<std::filesystem::path> class_folders(const std::filesystem::path& folder,
                                                 const std::string& other_way = {});

/// One folder per class, which its name says (`ClassWords`). Throws Error(invalid_argument) that
/// lists the folders where some name no class or several, some are numbers and others names, or two
/// numbers are one index (0 and 00). `hint` is the caller's way out where folders name no class;
/// without one there are `evaluate`'s. Throws Error(empty) without pictures.
LabelledSet read_folder_classes(const std::filesystem::path& folder, const image::Labels& labels,
                                const std::string& hint = {});

/// `--labels-csv`: a table of files and classes (label_table.cpp). The header has the
/// delimiter: comma, semicolon, tab, bar or blanks; UTF-8; RFC 4180 quoting. Columns are
/// found by name, in any case:
/// - the file (file, ImageId): relative to `folder`, to the table's folder or as given, with or
///   without the extension;
/// - its class: class_index (0-based), label (`ClassWords`) or ImageNet's PredictionString, the first
///   that is there;
/// - any number of valid classes with blanks between them (real_labels), for a second top-1.
/// Without a header there are two columns, and the first one names a picture that exists. Files that
/// do not exist are part of the set. Throws Error(invalid_argument) with the row.
LabelledSet read_labels_csv(const std::filesystem::path& csv, const std::filesystem::path& folder,
                            const image::Labels& labels);

}  // namespace hydrascope::app
