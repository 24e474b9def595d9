// The labels of a table (labelled_set.h): its columns, the pictures and classes that its cells name.
#include "app/pictures/class_words.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "kernels/input_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

// A table in a text file: UTF-8, cells between delimiters, quotes as in RFC 4180.

struct TableRow {
  std::int64_t number = 0;  ///< from 1, blank rows counted
  std::vector<std::string> cells;
};

/// The file's text without a byte order mark. Throws Error(invalid_argument) with `subject` for a
/// file that cannot be read or is no text.
std::string read_table_text(const fs::path& file, const std::string& subject) {
  std::error_code ignored;
  if (fs::is_character_file(file, ignored))
    throw UsageError("expected a file, found a device without an end", subject);
  InputFile stream(file);
  if (!stream) throw UsageError("cannot be read", subject);
  std::string text = stream.text();
  if (text.empty()) throw UsageError("the file is empty", subject);
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
    text.erase(0, kMark.size());
  if (text.find('\0') != std::string::npos) {
    throw UsageError("the file holds zero bytes: it is no text in UTF-8", subject,
                     "a spreadsheet is saved as CSV in UTF-8");
  }
  return text;
}

/// The rows that hold anything, at most `limit`. Lines end in LF, CRLF or CR; quoted cells may hold
/// delimiters, doubled quotes and line ends; blanks around cells are dropped. A blank as the
/// delimiter stands for any number of blanks. Throws Error(invalid_argument) with `subject` for a
/// quote without an end.
std::vector<TableRow> split_table(std::string_view text, char delimiter, const std::string& subject,
                                  std::size_t limit = SIZE_MAX) {
  std::vector<TableRow> rows;
  TableRow row{1, {""}};
  enum class Cell { plain, quoted, closed } cell = Cell::plain;
  const auto end_cell = [&] {
    if (cell == Cell::plain) row.cells.back() = without_blanks(row.cells.back());
    cell = Cell::plain;
  };
  const auto end_row = [&] {
    end_cell();
    const bool holds_any =
        std::ranges::any_of(row.cells, [](const std::string& each) { return !each.empty(); });
    const std::int64_t next = row.number + 1;
    if (holds_any) rows.push_back(std::move(row));
    row = {next, {""}};
  };
  for (std::size_t i = 0; i < text.size() && rows.size() < limit; ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (cell == Cell::quoted) {
      if (c != '"') {
        row.cells.back() += c;
      } else if (next == '"') {
        row.cells.back() += text[++i];
      } else {
        cell = Cell::closed;
      }
    } else if (c == '\n' || c == '\r') {
      if (c == '\r' && next == '\n') ++i;
      end_row();
    } else if (c == delimiter) {
      // A row of blanks is one delimiter, and none at the ends of a line.
      const bool is_first = cell == Cell::plain && row.cells.back().empty();
      const bool is_last = next == ' ' || next == '\r' || next == '\n' || next == '\0';
      if (c == ' ' && (is_first || is_last)) continue;
      end_cell();
      row.cells.emplace_back();
    } else if (c == '"' && cell == Cell::plain && without_blanks(row.cells.back()).empty()) {
      row.cells.back().clear();
      cell = Cell::quoted;
    } else if (cell == Cell::plain || !without_blanks({&c, 1}).empty()) {
      row.cells.back() += c;
    }
  }
  if (cell == Cell::quoted) {
    throw UsageError("a quoted cell has no end", subject + ", row " + std::to_string(row.number));
  }
  if (rows.size() < limit) end_row();
  return rows;
}

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
  std::optional<std::size_t> real = {};
  [[nodiscard]] bool suffice() const { return file && (label || real); }
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
  TableColumns columns{.file = place_of("file"), .real = place_of("reallabels")};
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
    std::string other = cell;
    std::ranges::replace(other, '\\', '/');
    std::error_code ignored;
    for (const std::string& spelling : {cell, other})
      for (const fs::path& base : bases_) {
        const fs::file_status status = fs::status(base / spelling, ignored);
        if (fs::exists(status) && !fs::is_directory(status)) return base / spelling;
      }
    if (has_image_extension(other)) return std::nullopt;
    for (const fs::path& base : bases_) {
      const fs::path wanted = base / other;
      const auto& found = stems_of(wanted.parent_path())[wanted.filename().string()];
      if (found.size() > 1)
        throw UsageError(
            "several pictures have the name '" + cell + "': " + join_words(found, ", ", " and "),
            place, "name the one that is meant with its extension");
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

/// How rows are cut.
struct TableForm {
  char delimiter = ',';
  bool has_header = true;
  std::vector<std::string> titles;  ///< "column 1", ... without a header
  TableColumns columns;
};

TableForm find_form(const std::string& text, PictureFinder& files, const std::string& subject) {
  constexpr std::string_view kDelimiters = ",;\t| ";
  std::vector<std::string> longest;
  std::optional<TableForm> without_header;
  for (const char delimiter : kDelimiters) {
    const std::vector<TableRow> rows = split_table(text, delimiter, subject, 1);
    if (rows.empty()) throw UsageError("expected a header and rows", subject);
    const std::vector<std::string>& titles = rows.front().cells;
    if (TableColumns columns = find_columns(titles); columns.suffice())
      return {delimiter, true, titles, std::move(columns)};
    if (titles.size() > longest.size()) longest = titles;
    if (!without_header && titles.size() == 2 && files.find(titles[0], subject + ", row 1"))
      without_header = {delimiter, false, {"column 1", "column 2"}, {.file = 0, .label = 1}};
  }
  if (without_header) return *without_header;
  constexpr std::size_t kShown = 200;
  throw UsageError(
      "the header needs a column of files (file, ImageId) and one of classes (label, class_index, "
      "PredictionString, real_labels); found: " +
          join_words(longest, ", ", ", ").substr(0, kShown),
      subject, "without a header, two columns: a picture that exists and its class");
}

/// The classes that words with blanks, commas or semicolons between them name; a cell that is one
/// word as a whole is that class.
std::vector<std::int64_t> listed_classes(const std::string& cell, const ClassWords& words,
                                         const std::string& place) {
  if (const auto whole = words.meaning_of(cell).classes; whole.size() == 1) return whole;
  std::string spaced = cell;
  std::ranges::replace_if(
      spaced, [](char c) { return std::string_view(",;|[]").find(c) != std::string_view::npos; },
      ' ');
  std::vector<std::int64_t> classes;
  std::istringstream list(spaced);
  for (std::string word; list >> word;)
    classes.push_back(words.find(word, place + ", '" + word + "'"));
  return classes;
}

/// The id of "n02444819 12 3 480 270 n02444819 ...".
std::string id_of_boxes(const std::string& cell, const std::string& place) {
  constexpr std::size_t kWordsOfABox = 5;
  std::string id;
  std::istringstream list(cell);
  std::size_t count = 0;
  for (std::string word; list >> word; ++count) {
    if (count % kWordsOfABox != 0 || word == id) continue;
    if (!id.empty()) throw UsageError("expected one class, found " + id + " and " + word, place);
    id = word;
  }
  if (count != 1 && count % kWordsOfABox != 0)
    throw UsageError("expected a synset id and four numbers for each box", place);
  return id;
}

LabelledPicture read_row(const TableRow& row, const TableForm& form, PictureFinder& files,
                         const ClassWords& words, const std::string& place) {
  const std::size_t count = form.titles.size();
  // An empty cell too many is a delimiter at the end of the line, another one a shifted row.
  std::size_t size = row.cells.size();
  while (size > count && row.cells[size - 1].empty()) --size;
  if (size != count)
    throw UsageError(
        "expected " + std::to_string(count) + " columns, found " + std::to_string(row.cells.size()),
        place, "a cell that holds the delimiter stands in quotes");
  const auto cell = [&](std::size_t column) -> const std::string& {
    if (row.cells[column].empty())
      throw UsageError("the cell of column '" + form.titles[column] + "' is empty", place);
    return row.cells[column];
  };
  const std::string& name = cell(*form.columns.file);
  LabelledPicture picture{files.find(name, place).value_or(files.folder() / name)};
  if (form.columns.label) {
    const std::string& text = cell(*form.columns.label);
    const LabelKind kind = form.columns.kind;
    const bool is_index = kind == LabelKind::index && is_whole_number(text);
    const std::string word = is_index                   ? std::string(kIndexMark) + text
                             : kind == LabelKind::boxes ? id_of_boxes(text, place)
                                                        : text;
    picture.target = words.find(word, place + ", '" + text + "'");
  }
  if (form.columns.real)
    picture.valid = listed_classes(row.cells[*form.columns.real], words, place);
  return picture;
}

}  // namespace

LabelledSet read_labels_csv(const fs::path& csv, const fs::path& folder,
                            const image::Labels& labels) {
  const std::string subject = "`labels_csv` " + csv.string();
  const ClassWords words(labels);
  PictureFinder files(folder, csv);
  const std::string text = read_table_text(csv, subject);
  const TableForm form = find_form(text, files, subject);
  std::vector<TableRow> rows = split_table(text, form.delimiter, subject);
  if (form.has_header) rows.erase(rows.begin());
  if (rows.empty()) throw UsageError("expected a header and rows", subject);

  LabelledSet set;
  set.has_labels = form.columns.label.has_value();
  set.has_real_labels = form.columns.real.has_value();
  set.rule = "column " + form.titles[set.has_labels ? *form.columns.label : *form.columns.real];
  std::map<fs::path, std::pair<std::size_t, std::int64_t>> seen;  // place and row of each file
  for (const TableRow& row : rows) {
    const std::string place = subject + ", row " + std::to_string(row.number);
    LabelledPicture picture = read_row(row, form, files, words, place);
    std::error_code error;
    const fs::path file = fs::absolute(picture.file, error);
    const auto [known, is_new] = seen.try_emplace((error ? picture.file : file).lexically_normal(),
                                                  set.pictures.size(), row.number);
    if (const auto& [earlier, number] = known->second;
        !is_new && (set.pictures[earlier].target != picture.target ||
                    set.pictures[earlier].valid != picture.valid)) {
      throw UsageError("'" + row.cells[*form.columns.file] + "' has another class in row " +
                           std::to_string(number),
                       place);
    }
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

}  // namespace hydrascope::app
