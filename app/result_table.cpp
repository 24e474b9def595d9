#include "app/result_table.h"

#include "app/delimited_row.h"
#include "app/option_table.h"
#include "app/terminal_text.h"
#include "app/text_columns.h"

#include <cmath>
#include <string_view>

namespace hydrascope::app {
namespace {

constexpr int kDigits = 6;  // significant, in records

bool is_nothing(const TableCell& cell) {
  const double* number = std::get_if<double>(&cell);
  return std::holds_alternative<std::monostate>(cell) ||
         (number != nullptr && !std::isfinite(*number));
}

/// A cell as json has it where `quoted`, else as csv and tsv have it.
std::string record_text(const TableCell& cell, bool quoted) {
  if (is_nothing(cell)) return quoted ? "null" : "";
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return significant(*number, kDigits);
  const std::string& text = std::get<std::string>(cell);
  return quoted ? json_string(text) : text;
}

std::string people_text(const TableCell& cell, int decimals) {
  if (is_nothing(cell)) return "-";
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return fixed(*number, decimals);
  return printable(std::get<std::string>(cell));
}

}  // namespace

void ResultTable::add(std::vector<TableCell> row) {
  if (row.size() != columns_.size()) {
    throw Error(ErrorCode::internal,
                "expected " + std::to_string(columns_.size()) + " cells, found " +
                    std::to_string(row.size()),
                "ResultTable");
  }
  rows_.push_back(std::move(row));
}

std::string ResultTable::object(const std::vector<TableCell>& row) const {
  JsonObject object;
  for (std::size_t i = 0; i < row.size(); ++i)
    object.add(columns_[i].key, std::string_view(record_text(row[i], /*quoted=*/true)));
  return object.text();
}

std::string ResultTable::json() const {
  std::vector<std::string> objects;
  for (const auto& row : rows_) objects.push_back(object(row));
  return '[' + join_words(objects, ",", ",") + ']';
}

std::vector<std::vector<std::string>> ResultTable::texts() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const TableColumn& column : columns_) lines[0].push_back(column.title);
  for (const auto& row : rows_) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      line.push_back(people_text(row[i], columns_[i].decimals));
  }
  return lines;
}

void ResultTable::write_text(std::ostream& out) const {
  std::vector<bool> to_left(columns_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      if (std::holds_alternative<std::string>(row[i])) to_left[i] = true;
  }
  write_columns(texts(), to_left, out);
}

void ResultTable::write(Format format, std::ostream& out) const {
  if (format == Format::text) {
    write_text(out);
  } else if (format == Format::json) {
    out << json() << '\n';
  } else if (format == Format::jsonl) {
    for (const auto& row : rows_) out << object(row) << '\n';
  } else {
    std::vector<std::string> fields;
    for (const TableColumn& column : columns_) fields.push_back(column.key);
    out << delimited_row(fields, format);
    for (const auto& row : rows_) {
      fields.clear();
      for (const TableCell& cell : row) fields.push_back(record_text(cell, /*quoted=*/false));
      out << delimited_row(fields, format);
    }
  }
  flush_results(out);
}

}  // namespace hydrascope::app
