// The table of `diagnose`: what the attention of every layer and head is like.
#pragma once

#include "app/results/report.h"

#include <cstdint>
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
  /// Facts, the table, and a chart over the layers for each column.
  [[nodiscard]] Report report() const;
};

}  // namespace hydrascope::app
