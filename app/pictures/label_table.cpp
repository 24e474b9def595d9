// The labels of a table (labelled_set.h): its columns, the pictures and classes that its cells name.
#include "app/pictures/class_words.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "app/pictures/text_table.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

/// The ways in which a column's cells name a class.
enum class LabelKind {
  word,   ///< as `ClassWords` has it
  index,  ///< a number is an index, whatever classes are called; else a word
  boxes   ///< ids, each with the four numbers of a box (ImageNet's LOC_val_solution.csv)
};

/// Which column holds what.
struct TableColumns {
  std::optional<std::size_t> file = {};
  std::optional<std::size_t> label = {};
  LabelKind kind = LabelKind::word;
  [[nodiscard]] bool suffice() const { return file && label; }
};

/// In lower case, without blanks, `_` and other signs.
std::string plain_name(std::string_view title) {
  std::string name;
  for (const char letter : title) {
    if (const auto byte = static_cast<unsigned char>(letter); std::isalnum(byte) != 0)
      name += static_cast<char>(std::tolower(byte));
  }
  return name;
}

TableColumns find_columns(const std::vector<std::string>& titles) {
  const auto place_of = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(titles, name, plain_name);
    if (found == titles.end()) return std::nullopt;
    return static_cast<std::size_t>(found - titles.begin());
  };
  TableColumns columns{.file = place_of("file")};
  if (!columns.file) columns.file = place_of("imageid");
  for (const auto& [name, kind] : {std::pair{"classindex", LabelKind::index},
                                   {"label", LabelKind::word},
                                   {"predictionstring", LabelKind::boxes}}) {
    if (columns.label) break;
    columns.label = place_of(name);
    columns.kind = kind;
  }
  return columns;
}

/// The files that the cells of a table mean.
class PictureFinder {
 public:
  PictureFinder(const fs::path& folder, const fs::path& table)
      : bases_{folder, table.parent_path(), ""} {}

  /// Relative to the folder, to the table's folder or as given, also with a backslash for a slash,
  /// or without the extension of a picture. Throws Error(invalid_argument) with `place` where
  /// several pictures have the name. Nothing where there is no such file.
  std::optional<fs::path> find(const std::string& cell, const std::string& place) {
    std::vector<std::string> spellings{cell};
    if (cell.find('\\') != std::string::npos) {
      spellings.push_back(cell);
      std::ranges::replace(spellings.back(), '\\', '/');
    }
    std::error_code ignored;
    for (const std::string& spelling : spellings) {
      for (const fs::path& base : bases_) {
        const fs::path file = base / spelling;
        if (const fs::file_status status = fs::status(file, ignored);
            fs::exists(status) && !fs::is_directory(status))
          return file;
      }
    }
    if (has_image_extension(spellings.back())) return std::nullopt;
    for (const fs::path& base : bases_) {
      const fs::path wanted = base / spellings.back();
      const auto& found = stems_of(wanted.parent_path())[wanted.filename().string()];
      if (found.size() > 1) {
        throw UsageError(
            "several pictures have the name '" + cell + "': " + join_words(found, ", ", " and "),
            place, "name the one that is meant with its extension");
      }
      if (!found.empty()) return wanted.parent_path() / found.front();
    }
    return std::nullopt;
  }

  [[nodiscard]] const fs::path& folder() const { return bases_.front(); }

 private:
  using Stems = std::map<std::string, std::vector<std::string>>;

  /// The pictures of a folder by their names without extension.
  Stems& stems_of(const fs::path& folder) {
    const auto [known, is_new] = stems_.try_emplace(folder);
    std::error_code ignored;
    if (!is_new) return known->second;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
      const fs::path& file = entry.path();
      if (has_image_extension(file))
        known->second[file.stem().string()].push_back(file.filename().string());
    }
    for (auto& [stem, files] : known->second) std::ranges::sort(files);
    return known->second;
  }

  std::array<fs::path, 3> bases_;
  std::map<fs::path, Stems> stems_;
};

/// The first row and how it is cut.
struct TableForm {
  char delimiter = ',';
  bool has_header = true;
  std::vector<std::string> titles;  ///< "column 1", ... without a header
  TableColumns columns;
};

[[noreturn]] void refuse_header(const std::vector<std::string>& titles,
                                const std::string& subject) {
  constexpr std::size_t kShown = 200;
  std::string found = join_words(titles, ", ", ", ");
  if (found.size() > kShown) found = found.substr(0, kShown) + "...";
  throw UsageError(
      "the header needs a column of files (file, ImageId) and one of classes (label, class_index, "
      "PredictionString); found: " +
          found,
      subject, "without a header, two columns: a picture that exists and its class");
}

/// Empties lines that begin with # in front of the table, save one that names a picture.
void drop_comments(std::string& text, std::string_view delimiters, PictureFinder& files,
                   const std::string& subject) {
  for (std::size_t at = 0; at < text.size() && text[at] == '#';) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    const std::string line = text.substr(at, end - at);
    for (const char delimiter : delimiters) {
      const std::size_t size = line.find(delimiter);
      if (size != line.npos && files.find(line.substr(0, size), subject)) return;
    }
    text.erase(at, line.size());
    at = std::min(text.find_first_not_of("\r\n", at), text.size());
  }
}

/// Excel's first line, which names the delimiter, is emptied.
std::string take_delimiter(std::string& text) {
  const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
  std::string line = text.substr(0, end);
  std::erase(line, '"');
  if (line.size() != 5 || line[3] != '=' || plain_name(line.substr(0, 3)) != "sep") return "";
  text.erase(0, end);
  return line.substr(4);
}

TableForm find_form(std::string& text, PictureFinder& files, const std::string& subject) {
  const std::string named = take_delimiter(text);
  const std::string delimiters = named.empty() ? ",;\t| " : named;
  drop_comments(text, delimiters, files, subject);
  std::vector<std::string> longest;
  const auto first_row = [&](char delimiter) -> std::vector<std::string> {
    const std::vector<TableRow> rows = split_table(text, delimiter, subject, 1);
    if (rows.empty()) throw UsageError("expected a header and rows", subject);
    return rows.front().cells;
  };
  for (const char delimiter : delimiters) {
    const std::vector<std::string> titles = first_row(delimiter);
    if (TableColumns columns = find_columns(titles); columns.suffice())
      return {delimiter, true, titles, std::move(columns)};
    if (titles.size() > longest.size()) longest = titles;
  }
  for (const char delimiter : delimiters) {
    const std::vector<std::string> cells = first_row(delimiter);
    if (cells.size() == 2 && files.find(cells[0], subject + ", row 1"))
      return {delimiter, false, {"column 1", "column 2"}, {.file = 0, .label = 1}};
  }
  refuse_header(longest, subject);
}

/// The classes of "n02444819 12 3 480 270 n02444819 ...", each once.
std::vector<std::int64_t> classes_of_boxes(const std::string& cell, const image::Labels& labels,
                                           const std::string& place) {
  constexpr std::size_t kWordsOfABox = 5;
  std::vector<std::int64_t> classes;
  std::istringstream list(cell);
  std::size_t count = 0;
  for (std::string word; list >> word; ++count) {
    if (count % kWordsOfABox != 0) continue;
    const auto index = labels.find_id(word);
    if (!index) throw UsageError("'" + word + "' is no synset id of the model", place);
    if (std::ranges::find(classes, *index) == classes.end()) classes.push_back(*index);
  }
  if (count != 1 && count % kWordsOfABox != 0)
    throw UsageError("expected a synset id and four numbers for each box", place);
  return classes;
}

/// One table that is being read.
class LabelTable {
 public:
  LabelTable(const fs::path& csv, const fs::path& folder, const image::Labels& labels)
      : subject_("`labels_csv` " + csv.string()), files_(folder, csv), words_(labels) {
    std::string text = read_table_text(csv, subject_);
    form_ = find_form(text, files_, subject_);
    rows_ = split_table(text, form_.delimiter, subject_);
    if (form_.has_header) rows_.erase(rows_.begin());
    if (rows_.empty()) throw UsageError("expected a header and rows", subject_);
  }

  LabelledSet read();

 private:
  [[nodiscard]] LabelledPicture read_row(const TableRow& row);
  /// Throws where the row ends before it.
  [[nodiscard]] const std::string& cell(const TableRow& row, std::size_t column) const;
  /// Throws for an empty one as well.
  [[nodiscard]] const std::string& full_cell(const TableRow& row, std::size_t column) const;
  [[nodiscard]] std::string place_of(const TableRow& row) const {
    return subject_ + ", row " + std::to_string(row.number);
  }
  [[nodiscard]] std::int64_t target_of(const std::string& text, const std::string& place) const;

  std::string subject_;
  PictureFinder files_;
  ClassWords words_;
  TableForm form_;
  std::vector<TableRow> rows_;
};

const std::string& LabelTable::cell(const TableRow& row, std::size_t column) const {
  if (column >= row.cells.size()) {
    throw UsageError("expected " + std::to_string(form_.titles.size()) + " columns, found " +
                         std::to_string(row.cells.size()),
                     place_of(row));
  }
  return row.cells[column];
}

const std::string& LabelTable::full_cell(const TableRow& row, std::size_t column) const {
  const std::string& text = cell(row, column);
  if (text.empty())
    throw UsageError("the cell of column '" + form_.titles[column] + "' is empty", place_of(row));
  return text;
}

std::int64_t LabelTable::target_of(const std::string& text, const std::string& place) const {
  if (form_.columns.kind == LabelKind::boxes) {
    const std::vector<std::int64_t> classes = classes_of_boxes(text, words_.labels(), place);
    if (classes.size() == 1) return classes.front();
    throw UsageError("expected one class, found " + words_.describe(classes), place);
  }
  const bool is_index = form_.columns.kind == LabelKind::index && is_whole_number(text);
  return words_.find((is_index ? std::string(kIndexMark) : "") + text, place + ", '" + text + "'");
}

LabelledPicture LabelTable::read_row(const TableRow& row) {
  const std::size_t count = form_.titles.size();
  // An empty cell too many is a delimiter at the end of the line, another one a shifted row.
  for (std::size_t i = count; i < row.cells.size(); ++i) {
    if (row.cells[i].empty()) continue;
    throw UsageError(
        "expected " + std::to_string(count) + " columns, found " + std::to_string(row.cells.size()),
        place_of(row), "a cell that holds the delimiter stands in quotes");
  }
  const std::string& name = full_cell(row, *form_.columns.file);
  LabelledPicture picture{files_.find(name, place_of(row)).value_or(files_.folder() / name)};
  picture.target = target_of(full_cell(row, *form_.columns.label), place_of(row));
  return picture;
}

LabelledSet LabelTable::read() {
  LabelledSet set;
  set.rule = "column " + form_.titles[*form_.columns.label];
  std::map<fs::path, std::pair<std::size_t, std::int64_t>> seen;  // place and row of each file
  for (const TableRow& row : rows_) {
    LabelledPicture picture = read_row(row);
    std::error_code error;
    const fs::path file = fs::absolute(picture.file, error);
    const auto [known, is_new] = seen.try_emplace((error ? picture.file : file).lexically_normal(),
                                                  set.pictures.size(), row.number);
    if (const auto& [earlier, number] = known->second;
        !is_new && set.pictures[earlier].target != picture.target) {
      throw UsageError("'" + row.cells[*form_.columns.file] + "' has another class in row " +
                           std::to_string(number),
                       place_of(row));
    }
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

}  // namespace

LabelledSet read_labels_csv(const fs::path& csv, const fs::path& folder,
                            const image::Labels& labels) {
  return LabelTable(csv, folder, labels).read();
}

}  // namespace hydrascope::app
