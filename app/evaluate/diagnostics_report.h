// The table of `diagnose`: what the attention of every layer and head is like.
#pragma once

#include "app/results/json.h"
#include "app/results/table.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace hydrascope::app {

struct DiagnosticsReport {
  struct Column {
    std::string key;      ///< "entropy_share"
    std::string title;    ///< "entropy / ln N"
    std::string summary;  ///< a line for people
  };
  /// A head's numbers, or with `head` -1 those of its whole layer.
  struct Row {
    std::int64_t layer = 0;
    std::string mechanism;
    std::int64_t head = -1;
    std::vector<double> values;  ///< a column each; NaN where it is not defined
    [[nodiscard]] bool is_of_layer() const noexcept { return head < 0; }
  };

  std::string model;
  std::string attention;
  std::string against;  ///< empty without a reference
  std::string against_attention;
  std::int64_t images = 0;
  std::int64_t failed = 0;   ///< pictures that are not in it
  std::int64_t queries = 0;  ///< of a picture that rows were judged by
  std::vector<Column> columns;
  std::vector<Row> rows;           ///< by layer: the layer's, then its heads'
  std::vector<std::string> notes;  ///< what the reader must know

  /// Leaves out columns without a number.
  void drop_empty_columns();
  [[nodiscard]] ResultTable table() const;
  /// Facts, what the columns are, rows.
  [[nodiscard]] OrderedJson json() const;
  /// The table, then one line per column.
  void write_text(std::ostream& out) const;
  void write(Format format, std::ostream& out) const;
  /// A self-contained page: one chart per column over the layers, and the table.
  [[nodiscard]] std::string page() const;
};

/// Throws Error(invalid_argument) if `file`, which `option` named, has no extension that
/// `write_diagnostics` knows: better before an evaluation than after it.
void check_diagnostics_file(const std::string& file, const std::string& option);
/// By the extension: .json, .html, .csv, .tsv or .txt.
void write_diagnostics(const DiagnosticsReport& report, const std::string& file,
                       const std::string& option);

}  // namespace hydrascope::app
