// A table of results, in every format from one place.
#pragma once

#include "app/report.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

namespace hydrascope::app {

struct TableColumn {
  std::string key;    ///< in json, csv and tsv
  std::string title;  ///< for people
  int decimals = 4;   ///< of its fractions, for people
};

/// A number that is not finite is like nothing: null in json, empty in csv and tsv, - for people.
using TableCell = std::variant<std::monostate, std::int64_t, double, std::string>;

class ResultTable {
 public:
  explicit ResultTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// Throws Error(internal) for another number of cells than there are columns.
  void add(std::vector<TableCell> row);
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// An array of objects.
  [[nodiscard]] std::string json() const;
  /// What people see: the titles, then a row each.
  [[nodiscard]] std::vector<std::vector<std::string>> texts() const;
  /// text: columns with titles; csv and tsv: a header and rows; json: `json`, jsonl: an object a
  /// line. Throws Error(failed) when `out` cannot be written to.
  void write(Format format, std::ostream& out) const;

 private:
  [[nodiscard]] std::string object(const std::vector<TableCell>& row) const;
  void write_text(std::ostream& out) const;

  std::vector<TableColumn> columns_;
  std::vector<std::vector<TableCell>> rows_;
};

}  // namespace hydrascope::app
