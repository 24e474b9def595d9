#include "app/results/table.h"

#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>
#include <vector>

namespace hydrascope::app {

namespace {

bool is_nothing(const OrderedJson& cell) {
  return cell.is_null() || (cell.is_number_float() && !std::isfinite(cell.get<double>()));
}

/// The value of a row or a summary, as records have it.
OrderedJson record_value(const OrderedJson& cell) {
  return cell.is_number_float() ? OrderedJson(rounded(cell.get<double>())) : cell;
}

bool is_flat(const OrderedJson& cell) {
  return std::ranges::all_of(cell, [](const OrderedJson& value) { return value.is_primitive(); });
}

std::string people_text(const OrderedJson& cell, int decimals) {
  if (is_nothing(cell) || (cell.is_structured() && cell.empty())) return "-";
  if (cell.is_boolean()) return cell.get<bool>() ? "yes" : "no";
  if (cell.is_number_float()) return fixed(cell.get<double>(), decimals);
  return printable(cell_text(cell));
}

}  // namespace

void write_columns(const std::vector<std::vector<std::string>>& lines,
                   const std::vector<bool>& to_left, std::ostream& out) {
  if (lines.empty()) return;
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  }
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - columns(line[i]), ' ');
      const bool is_last = i + 1 == line.size();
      if (i > 0) out << "  ";
      if (i < to_left.size() && to_left[i]) {
        out << line[i] << (is_last ? "" : blanks);
      } else {
        out << blanks << line[i];
      }
    }
    out << '\n';
  }
}

std::string cell_text(const OrderedJson& cell) {
  if (is_nothing(cell)) return "";
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_primitive() || !is_flat(cell)) return json_text(cell);
  const bool is_size = cell.is_array() && std::ranges::all_of(cell, [](const OrderedJson& value) {
                         return value.is_number_integer();
                       });
  std::string text;
  for (const auto& [key, value] : cell.items()) {
    if (!text.empty()) text += is_size ? "x" : ", ";
    text += (cell.is_object() ? key + "=" : "") + cell_text(value);
  }
  return text;
}

ResultTable ResultTable::of_settings(const OrderedJson& settings) {
  ResultTable table({{"setting", "setting"}, {"value", "value"}});
  for (const auto& [key, value] : settings.items()) table.add({key, cell_text(value)});
  return table;
}

void ResultTable::add(std::vector<OrderedJson> row, bool is_strong) {
  if (row.size() != columns_.size()) {
    throw Error(ErrorCode::internal,
                "expected " + std::to_string(columns_.size()) + " cells, found " +
                    std::to_string(row.size()),
                "ResultTable");
  }
  rows_.push_back(std::move(row));
  strong_.push_back(is_strong);
}

OrderedJson ResultTable::object(const std::vector<OrderedJson>& row) const {
  OrderedJson object = OrderedJson::object();
  for (std::size_t i = 0; i < row.size(); ++i) object[columns_[i].key] = record_value(row[i]);
  return object;
}

OrderedJson ResultTable::json() const {
  OrderedJson objects = OrderedJson::array();
  for (const auto& row : rows_) objects.push_back(object(row));
  return objects;
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

std::vector<bool> ResultTable::to_left() const {
  std::vector<bool> to_left(columns_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].is_string()) to_left[i] = true;
  }
  return to_left;
}

void ResultTable::write(Format format, std::ostream& out) const {
  if (format == Format::text || format == Format::md) mark_text(out);
  if (format == Format::text) {
    write_columns(texts(), to_left(), out);
  } else if (format == Format::md) {
    const auto lines = texts();
    out << header_row(lines.front(), format);
    for (std::size_t i = 1; i < lines.size(); ++i) out << delimited_row(lines[i], format);
  } else if (format == Format::json) {
    out << json_text(json()) << '\n';
  } else if (format == Format::jsonl) {
    for (const auto& row : rows_) out << json_text(object(row)) << '\n';
  } else {
    std::vector<std::string> fields;
    for (const TableColumn& column : columns_) fields.push_back(column.key);
    out << header_row(fields, format);
    for (const auto& row : rows_) {
      fields.clear();
      for (const OrderedJson& cell : row)
        fields.push_back(text_for(out, cell_text(record_value(cell))));
      out << delimited_row(fields, format);
    }
  }
  flush_results(out);
}

void Summary::add(std::string key, OrderedJson value, int text_decimals, unsigned places) {
  std::string text = people_text(value, text_decimals);
  fields_.push_back({std::move(key), record_value(value), std::move(text), places});
}

void Summary::add_size(std::string key, std::int64_t height, std::int64_t width) {
  add(std::move(key), OrderedJson::array({height, width}));
  fields_.back().text += " (HxW)";
}

OrderedJson Summary::json() const {
  OrderedJson object = OrderedJson::object();
  for (const Field& field : fields_)
    if ((field.places & kInJson) != 0) object[field.key] = field.value;
  return object;
}

std::vector<std::pair<std::string, std::string>> Summary::texts() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Field& field : fields_) {
    if ((field.places & kForPeople) == 0) continue;
    auto& [words, text] = pairs.emplace_back(field.key, field.text);
    std::ranges::replace(words, '_', ' ');
  }
  return pairs;
}

void Summary::write_row(Format format, std::ostream& out) const {
  std::vector<std::string> keys;
  std::vector<std::string> cells;
  for (const Field& field : fields_) {
    if ((field.places & kInRows) == 0) continue;
    keys.push_back(field.key);
    cells.push_back(text_for(out, cell_text(field.value)));
  }
  out << header_row(keys, format) << delimited_row(cells, format);
}

RecordStream::RecordStream(Format format, std::ostream& out, std::string_view columns,
                           std::string each, OrderedJson header)
    : format_(format), out_(out), each_(std::move(each)), header_(std::move(header)) {
  std::istringstream words{std::string(columns)};
  for (std::string word; words >> word;) {
    const std::size_t end = std::min(word.find_first_of("=?"), word.size());
    const std::string name = word.substr(0, end);
    const std::string rest = end < word.size() ? word.substr(end + 1) : "";
    const bool is_place = end < word.size() && word[end] == '=';
    columns_.push_back(
        {name, OrderedJson::json_pointer(is_place ? rest : '/' + name), is_place ? "" : rest});
  }
}

void RecordStream::write(const OrderedJson& record, std::string_view text) {
  const bool is_first = !has_begun_;
  begin();
  switch (format_) {
    case Format::text: out_ << text; break;
    case Format::jsonl: out_ << json_text(record) << '\n'; break;
    case Format::json:
      // The separator of two records precedes the second: nothing needs to be known of the next.
      out_ << (is_first ? "\n" : ",\n") << json_text(record);
      break;
    default:
      if (!record.contains(each_)) {
        write_row(record);
        break;
      }
      OrderedJson row = record;
      for (const OrderedJson& element : record.at(each_)) {
        row[each_] = element;
        write_row(row);
      }
  }
  flush_results(out_);
}

void RecordStream::finish() {
  if (std::exchange(is_finished_, true)) return;
  const bool is_empty = !has_begun_;
  begin();
  if (format_ == Format::json)
    out_ << (is_empty ? "]" : "\n]") << (header_.is_object() ? "}\n" : "\n");
  flush_results(out_);
}

void RecordStream::begin() {
  if (std::exchange(has_begun_, true)) return;
  if (format_ == Format::text || format_ == Format::md) mark_text(out_);
  const bool is_json = format_ == Format::json || format_ == Format::jsonl;
  if (header_.is_object() && is_json) {
    const std::string text = R"({"schema":1,"header":)" + json_text(header_);
    out_ << text << (format_ == Format::json ? ",\"rows\":" : "}\n");
  } else if (header_.is_object() && format_ == Format::text) {
    for (const auto& [key, value] : header_.items())
      out_ << key << ": " << printable(cell_text(value)) << '\n';
  }
  if (format_ == Format::json) out_ << '[';
  if (is_json || format_ == Format::text) return;
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  out_ << header_row(names, format_);
}

void RecordStream::write_row(const OrderedJson& record) {
  std::vector<std::string> cells;
  for (const auto& [name, place, usual] : columns_) {
    const bool is_left_out = !record.contains("error");
    cells.push_back(record.contains(place)
                        ? text_for(out_, cell_text(record_value(record.at(place))))
                    : is_left_out ? usual
                                  : "");
  }
  out_ << delimited_row(cells, format_);
}

}  // namespace hydrascope::app
