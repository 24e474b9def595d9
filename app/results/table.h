// Tables, facts and records of results; a report (report.h) holds tables and facts.
#pragma once

#include "app/results/format.h"
#include "app/results/json.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// Lines of as many cells in columns as wide as their widest, two blanks between them. Columns with
/// `to_left` are flush left, those without or beyond it flush right.
void write_columns(const std::vector<std::vector<std::string>>& lines,
                   const std::vector<bool>& to_left, std::ostream& out);

/// A cell of csv: whole numbers of an array as "3x64", its words as "a, b", an object as
/// "key=value, key=value"; what holds more arrays or objects as JSON. A number that is not finite is
/// like nothing: null in JSON, empty here, - for people.
std::string cell_text(const OrderedJson& cell);

/// The places that show a part of a report, as bits: json and jsonl, text and md, csv, the
/// page.
enum Place : unsigned { kInJson = 1, kInText = 2, kInRows = 4, kOnPage = 8 };
inline constexpr unsigned kForPeople = kInText | kOnPage;
inline constexpr unsigned kBeside = kInJson | kForPeople;  ///< all but csv
inline constexpr unsigned kMain = kBeside | kInRows;

struct TableColumn {
  std::string key;    ///< in json and csv
  std::string title;  ///< for people
  int decimals = 4;   ///< of its fractions, for people
};

class ResultTable {
 public:
  explicit ResultTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}
  /// The members of an object, as columns "setting" and "value".
  static ResultTable of_settings(const OrderedJson& settings);

  /// Fractions keep six significant digits in records; `is_strong` rows are bold on a page. Throws
  /// Error(internal) for another number of cells than there are columns.
  void add(std::vector<OrderedJson> row, bool is_strong = false);
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// An array of objects.
  [[nodiscard]] OrderedJson json() const;
  /// The table for people: the titles, then a row each.
  [[nodiscard]] std::vector<std::vector<std::string>> texts() const;
  /// For each column: whether it holds words, which people read flush left.
  [[nodiscard]] std::vector<bool> to_left() const;
  /// Whether each of `texts` is bold.
  [[nodiscard]] const std::vector<bool>& strong() const noexcept { return strong_; }
  /// text and md: columns with titles; csv: a header and rows; json: `json`, jsonl: an object a
  /// line. Throws Error(unwritable) when `out` cannot be written to.
  void write(Format format, std::ostream& out) const;

 private:
  [[nodiscard]] OrderedJson object(const std::vector<OrderedJson>& row) const;

  std::vector<TableColumn> columns_;
  std::vector<std::vector<OrderedJson>> rows_;  ///< as they were added
  std::vector<bool> strong_{false};             ///< of the titles, then of each row
};

/// Facts: what a run comes to, pairs in the order in which they were added.
class Summary {
 public:
  void add(std::string key, OrderedJson value, int text_decimals = 2, unsigned places = kMain);
  /// [HEIGHT,WIDTH], for people "160x320 (HxW)".
  void add_size(std::string key, std::int64_t height, std::int64_t width);
  [[nodiscard]] OrderedJson json() const;
  /// The pairs for people.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> texts() const;
  /// csv: a header and a row.
  void write_row(Format format, std::ostream& out) const;

 private:
  struct Field {
    std::string key;
    OrderedJson value;
    std::string text;  ///< for people
    unsigned places;
  };
  std::vector<Field> fields_;
};

// Writes records as they come, whatever they say: one writer for all formats.

/// Writes each record and flushes it. Odd file names are no error: bytes that are not UTF-8 become
/// U+FFFD in JSON, which then has `input_bytes`, too (`add_path`), and are kept as they are in text,
/// csv; newlines, control characters and separators are quoted. Throws Error(unwritable) when
/// `out` cannot be written to (a full disk).
class RecordStream {
 public:
  /// `columns` of csv, separated by blanks: a member of the record, "frame", or a name
  /// and where its value is, "model_height=/model_size/0", or what a record that is no failure leaves
  /// out, "head?mean". A record whose member `each` is an array has a row per element, in which the
  /// element stands in the array's place. If `header` is an object, the stream begins with it, but for
  /// csv; json is then an object of schema, header and rows.
  RecordStream(Format format, std::ostream& out, std::string_view columns, std::string each = {},
               OrderedJson header = {});
  /// `text` is what people see of it: whole lines.
  void write(const OrderedJson& record, std::string_view text);
  /// Closes the array of `json`, gives a stream without records its header; call it also after an
  /// interruption. Calling it again does nothing.
  void finish();

 private:
  struct Column {
    std::string name;
    OrderedJson::json_pointer place;
    std::string usual;
  };
  void begin();
  void write_row(const OrderedJson& record);

  Format format_;
  std::ostream& out_;
  std::vector<Column> columns_;
  std::string each_;
  OrderedJson header_;
  bool has_begun_ = false;
  bool is_finished_ = false;
};

}  // namespace hydrascope::app
