#include "app/pictures/labelled_set.h"

#include "app/options/options.h"
#include "app/pictures/folder_listing.h"
#include "app/pictures/inputs.h"
#include "app/run/usage_error.h"
#include "kernels/number_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

/// Also those of folders within, as torchvision and timm have it.
std::vector<fs::path> pictures_of(const fs::path& folder) {
  std::vector<fs::path> pictures;
  std::istringstream nothing;
  InputStream walk({folder.string()}, /*recursive=*/true, nothing);
  while (const auto input = walk.next()) {
    if (!input->error) {
      pictures.push_back(input->path);
    } else if (*input->error == ErrorCode::unreadable) {
      throw Error(*input->error, input->message, input->given);
    }
  }
  return pictures;
}

std::optional<std::int64_t> class_of(const std::string& word, const image::Labels& labels) {
  if (const auto index = labels.find_id(word)) return index;
  const std::vector<std::int64_t> named = labels.find_name(word);
  if (named.size() == 1) return named.front();
  // Where several classes share a name, the one that has no other name is meant.
  std::optional<std::int64_t> exact;
  for (const std::int64_t index : named) {
    if (labels.at(index).names != word) continue;
    if (exact) return std::nullopt;
    exact = index;
  }
  return exact;
}

/// Rows of an RFC 4180 file: quoted fields may hold commas, doubled quotes and newlines.
std::vector<std::vector<std::string>> read_csv(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UsageError("cannot be read", "--labels-csv " + file.string());
  std::string text(std::istreambuf_iterator<char>(stream), {});
  // Spreadsheets begin UTF-8 with a byte order mark.
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
    text.erase(0, kMark.size());
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  const auto end_row = [&] {
    if (row.size() > 1 || !row.front().empty()) rows.push_back(row);
    row.assign(1, "");
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        row.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"' && row.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  end_row();
  return rows;
}

std::int64_t checked_class(std::int64_t index, const std::string& word, const image::Labels& labels,
                           const std::string& place) {
  if (index >= 0 && std::cmp_less(index, labels.size())) return index;
  throw UsageError(
      "'" + word + "' is no class of the model (" + std::to_string(labels.size()) + " classes)",
      place);
}

std::int64_t class_of_id(const std::string& word, const image::Labels& labels,
                         const std::string& place) {
  return checked_class(labels.find_id(word).value_or(kNoClass), word, labels, place);
}

/// The classes that indices or ids with blanks between them name.
std::vector<std::int64_t> classes_of(const std::string& text, const image::Labels& labels,
                                     const std::string& place) {
  std::vector<std::int64_t> classes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    classes.push_back(labels.find_id(word)
                          ? class_of_id(word, labels, place)
                          : checked_class(to_integer(word, place), word, labels, place));
  }
  return classes;
}

std::optional<std::size_t> column_of(const std::vector<std::string>& header,
                                     std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = std::ranges::find(header, name);
    if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  }
  return std::nullopt;
}

}  // namespace

std::vector<fs::path> class_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(folder, status)) {
    if (entry.is_directory() && !is_hidden(entry.path().filename().string()))
      folders.push_back(entry.path());
  }
  if (status) throw Error(ErrorCode::unreadable, status.message(), folder.string());
  std::ranges::sort(folders);
  return folders;
}

LabelledSet read_folder_classes(const fs::path& folder, const image::Labels& labels,
                                const std::string& hint) {
  const std::vector<fs::path> folders = class_folders(folder);
  if (folders.empty()) {
    throw UsageError("expected a folder per class, found no folders", folder.string(),
                     "for a flat folder give --labels-csv FILE");
  }
  std::vector<std::optional<std::int64_t>> targets;
  for (const fs::path& path : folders)
    targets.push_back(class_of(path.filename().string(), labels));
  LabelledSet set;
  set.rule = "folders named by synset id or class name";
  const auto matched =
      std::ranges::count_if(targets, [](const auto& target) { return target.has_value(); });
  if (matched == 0) {
    if (folders.size() != labels.size()) {
      throw UsageError("no folder is named after a class, and there are " +
                           std::to_string(folders.size()) + " folders for " +
                           std::to_string(labels.size()) + " classes",
                       folder.string(), hint);
    }
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::int64_t>(i);
    set.rule = "folders in sorted order";
    set.is_by_order = true;
  }
  std::string unknown;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (!targets[i]) {
      unknown += (unknown.empty() ? "" : ", ") + folders[i].filename().string();
      continue;
    }
    for (const fs::path& file : pictures_of(folders[i]))
      set.pictures.push_back({file, *targets[i]});
  }
  if (!unknown.empty()) {
    throw UsageError("folders that name no class, or more than one: " + unknown, folder.string(),
                     "name them by synset id, or give --class-map FILE");
  }
  if (set.pictures.empty())
    throw Error(ErrorCode::empty, "the class folders hold no pictures", folder.string());
  return set;
}

LabelledSet read_labels_csv(const fs::path& csv, const fs::path& folder,
                            const image::Labels& labels) {
  const std::vector<std::vector<std::string>> rows = read_csv(csv);
  const std::string subject = "--labels-csv " + csv.string();
  if (rows.size() < 2) throw UsageError("expected a header and rows", subject);
  const auto file_column = column_of(rows[0], {"file", "filename", "image"});
  const auto index_column = column_of(rows[0], {"class_index", "label", "index"});
  const auto id_column = column_of(rows[0], {"synset", "id"});
  const auto real_column = column_of(rows[0], {"real_labels", "real", "labels"});
  if (!file_column || (!index_column && !id_column && !real_column)) {
    throw UsageError(
        "the header needs a column file, filename or image and one of class_index, label, "
        "index, synset, id, real_labels",
        subject);
  }
  LabelledSet set;
  set.has_labels = index_column || id_column;
  set.has_real_labels = real_column.has_value();
  set.rule = index_column ? "class index column"
             : id_column  ? "synset id column"
                          : "column of valid labels";
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::string place = subject + ", row " + std::to_string(i + 1);
    const auto cell = [&](const std::optional<std::size_t>& column) -> const std::string& {
      if (*column < rows[i].size()) return rows[i][*column];
      throw UsageError("expected " + std::to_string(rows[0].size()) + " columns, found " +
                           std::to_string(rows[i].size()),
                       place);
    };
    LabelledPicture picture{folder / cell(file_column)};
    if (index_column) {
      picture.target =
          checked_class(to_integer(cell(index_column), place), cell(index_column), labels, place);
    } else if (id_column) {
      picture.target = class_of_id(cell(id_column), labels, place);
    }
    if (real_column) picture.valid = classes_of(cell(real_column), labels, place);
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

namespace {

/// 42 of ILSVRC2012_val_00000042.JPEG.
std::optional<std::size_t> validation_number(const std::filesystem::path& file) {
  constexpr std::string_view kBegin = "ILSVRC2012_val_";
  const std::string stem = file.stem().string();
  if (!stem.starts_with(kBegin)) return std::nullopt;
  const auto number = parse_number<std::size_t>(std::string_view(stem).substr(kBegin.size()));
  return number == 0U ? std::nullopt : number;
}

/// An entry of the file as class indices.
std::vector<std::int64_t> classes_of(const nlohmann::json& entry, std::int64_t num_classes,
                                     const std::string& place) {
  const auto is_class = [&](const nlohmann::json& value) {
    return value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
           value.get<std::int64_t>() < num_classes;
  };
  if (!entry.is_array() || !std::ranges::all_of(entry, is_class)) {
    throw UsageError(
        "expected a list of class indices from 0 to " + std::to_string(num_classes - 1), place);
  }
  return entry.get<std::vector<std::int64_t>>();
}

}  // namespace

void read_real_labels(const std::filesystem::path& file, std::int64_t num_classes,
                      LabelledSet& set) {
  const std::string subject = "--real-labels " + file.string();
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UsageError("cannot be read", subject);
  const nlohmann::json lists =
      nlohmann::json::parse(stream, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!lists.is_array()) throw UsageError("expected a JSON list of lists", subject);
  const bool numbered = std::ranges::all_of(set.pictures, [](const LabelledPicture& picture) {
    return validation_number(picture.file).has_value();
  });
  if (!numbered && lists.size() != set.pictures.size()) {
    throw UsageError("holds " + std::to_string(lists.size()) + " lists for " +
                         std::to_string(set.pictures.size()) + " pictures",
                     subject);
  }
  for (std::size_t i = 0; i < set.pictures.size(); ++i) {
    LabelledPicture& picture = set.pictures[i];
    const std::size_t at = numbered ? *validation_number(picture.file) - 1 : i;
    if (at >= lists.size()) {
      throw UsageError("has no list for " + picture.file.filename().string(), subject);
    }
    picture.valid =
        classes_of(lists[at], num_classes, subject + ", list " + std::to_string(at + 1));
  }
  set.has_real_labels = true;
}

}  // namespace hydrascope::app
