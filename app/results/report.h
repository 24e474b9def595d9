// Results as one value: facts, tables, charts and notes, which one writer puts into every format.
#pragma once

#include "app/results/table.h"
#include "viz/charts/chart_page.h"
#include "viz/charts/line_chart.h"

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// The lines of a chart: column `y` of `table` over its column `x`, a line for each value of column
/// `by` in the order of their first rows; without `by` one line with the name of `y`. A cell that is no
/// number is a gap.
std::vector<viz::ChartLine> lines_of(const ResultTable& table, std::string_view x,
                                     std::string_view y, std::string_view by = "");

/// A place beside `kOnPage`: there the table is behind its title.
inline constexpr unsigned kFolded = 16;

/// Pictures side by side, under a title on a page.
struct Gallery {
  std::string title;
  std::vector<viz::GalleryPicture> pictures;
};

/// The edge that a gallery's pictures are shrunk to.
inline constexpr int kGalleryEdge = 256;
/// A picture for a gallery.
viz::Canvas thumbnail(const viz::Canvas& picture);

class Report {
 public:
  /// `title` is the title of the page.
  explicit Report(std::string title) : title_(std::move(title)) {}
  /// A report that is one table: an array in json, a line for each row in jsonl.
  static Report of(std::string title, ResultTable table);

  /// The main figure of a page: "84.60 % ± 1.61", "top-1 of 500 pictures".
  struct Figure {
    std::string figure;
    std::string words;
  };
  std::optional<Figure> figure;      ///< of the page, large
  std::string line;                  ///< of the page, in front of all facts
  Summary summary;                   ///< facts
  std::vector<std::string> notes;    ///< what the reader must know; not in json
  std::vector<std::string> remarks;  ///< what helps to read the tables; for people alone
  std::vector<viz::LineChart> charts;
  /// Made when they are first needed; may be empty.
  std::function<std::vector<Gallery>()> galleries;

  void add(std::string key, OrderedJson value, int text_decimals = 2) {
    summary.add(std::move(key), std::move(value), text_decimals);
  }
  /// `key` is its name in json, `title` the heading for people. csv holds the first table that has
  /// its place there, or the facts as one row.
  void add_table(std::string key, std::string title, ResultTable table, unsigned places = kBeside);
  /// A report inside this one: an object in json; its tables, charts and notes follow this one's.
  void add_part(const std::string& key, Report part);

  using Notice = std::function<void(const std::string&)>;
  /// `notice` is told the notes where the format has no place for them. Throws Error(unwritable) when
  /// `out` cannot be written to.
  void write(Format format, std::ostream& out, const Notice& notice = {}) const;
  /// Writes `file`, which `option` named, in the format of its extension; .svg is the charts alone.
  /// Throws Error(unwritable).
  void save(const std::string& file, const std::string& option) const;
  /// Facts and tables, without a schema.
  [[nodiscard]] OrderedJson json() const;
  /// A page that needs no other file.
  [[nodiscard]] std::string page() const;

 private:
  struct NamedTable {
    std::string key;
    std::string title;
    ResultTable table;
    unsigned places;
  };
  [[nodiscard]] const ResultTable* main_table() const;
  void write_json(Format format, std::ostream& out) const;
  void write_for_people(Format format, std::ostream& out) const;

  std::string title_;
  std::vector<NamedTable> tables_;
  bool is_one_table_ = false;
};

}  // namespace hydrascope::app
