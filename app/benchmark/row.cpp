#include "app/benchmark/row.h"

#include "app/delimited_row.h"
#include "app/report.h"
#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <type_traits>
#include <utility>

namespace hydrascope::app {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const BenchmarkRow& row) {
  OrderedJson json = OrderedJson::object();
  BenchmarkRow::visit(
      row, [&](std::string_view name, const auto& value) { json[std::string(name)] = value; });
  return json;
}

std::string cell(const std::string& value) { return value; }
std::string cell(std::int64_t value) { return std::to_string(value); }
std::string cell(const std::array<std::int64_t, 2>& size) {
  return std::to_string(size[0]) + "x" + std::to_string(size[1]);
}
std::string cell(double value) {
  std::ostringstream text;
  text.precision(5);
  text << value;
  return text.str();
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  BenchmarkRow row;
  BenchmarkRow::visit(row, [&](std::string_view name, auto&) { names.emplace_back(name); });
  return names;
}

std::vector<std::string> cells(const BenchmarkRow& row) {
  std::vector<std::string> values;
  BenchmarkRow::visit(row,
                      [&](std::string_view, const auto& value) { values.push_back(cell(value)); });
  return values;
}

std::string markdown_row(const std::vector<std::string>& values) {
  std::string line = "|";
  for (const std::string& value : values) {
    std::string escaped;
    for (const char c : value) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    line += " " + escaped + " |";
  }
  return line + "\n";
}

/// Four digits, at most six characters up to a million.
std::string short_number(double value) {
  return fixed(value, value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0);
}

/// The columns of the text form with their widths, 98 in all; the first is filled on the right.
constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kTextColumns{{{"attention", 24},
                                                                                 {"HxW", 10},
                                                                                 {"batch", 6},
                                                                                 {"precision", 10},
                                                                                 {"images/s", 9},
                                                                                 {"ms p50", 8},
                                                                                 {"ms p90", 8},
                                                                                 {"peak MB", 8},
                                                                                 {"GFLOP", 7},
                                                                                 {"% peak", 8}}};

/// A first cell that is too wide stands on a line of its own.
std::string text_line(const std::vector<std::string>& cells) {
  std::string line = cells.front();
  const std::size_t first = kTextColumns.front().second;
  if (line.size() > first)
    line += '\n' + std::string(first, ' ');
  else
    line.resize(first, ' ');
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const std::size_t width = kTextColumns[i].second;
    line += std::string(width - std::min(width - 1, cells[i].size()), ' ') + cells[i];
  }
  return line + '\n';
}

std::string text_header() {
  std::vector<std::string> names;
  for (const auto& [name, width] : kTextColumns) names.emplace_back(name);
  return text_line(names);
}

/// What every text table of one model on one device has above it.
std::string text_group(const BenchmarkRow& row) { return row.model + " on " + row.device; }

std::string text_row(const BenchmarkRow& row) {
  std::string what = row.attention;
  for (const std::string& unusual : {row.approximations, row.kernels, row.stage})
    if (!unusual.empty() && unusual != "fused" && unusual != "model") what += ' ' + unusual;
  std::vector<std::string> cells{what, cell(row.img_size), cell(row.batch), row.precision};
  if (!row.error.empty()) {
    std::string line = text_line(cells);
    return line.insert(line.size() - 1, "  " + row.error);
  }
  for (const double value : {row.images_per_second, row.ms_p50, row.ms_p90})
    cells.push_back(short_number(value));
  cells.push_back(cell(row.peak_memory_bytes / 1'000'000));
  for (const double value : {row.gflops_per_image, row.pct_of_peak})
    cells.push_back(short_number(value));
  return text_line(cells);
}

BenchmarkRow row_from_json(const nlohmann::json& json, const std::string& file) {
  BenchmarkRow row;
  BenchmarkRow::visit(row, [&](std::string_view name, auto& value) {
    const bool is_later = name == "approximations" || name == "error";
    if (is_later && !json.contains(name)) return;  // of an earlier version
    try {
      value = json.at(std::string(name)).get<std::decay_t<decltype(value)>>();
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorCode::failed, "a row's " + std::string(name) + ": " + error.what(), file);
    }
  });
  return row;
}

}  // namespace

std::string BenchmarkRow::key() const {
  return model + " " + attention + " " + cell(img_size) + " batch " + std::to_string(batch) + " " +
         precision + " " + device + " " + kernels + " " + stage +
         (attention_options.empty() ? "" : " " + attention_options) +
         (approximations.empty() ? "" : " " + approximations) + (error.empty() ? "" : " " + error);
}

BenchmarkFormat choose_benchmark_format(std::string_view format, std::string_view output) {
  if (format == "md" || (format.empty() && output.ends_with(".md"))) return BenchmarkFormat::md;
  switch (choose_format(format, output)) {
    case Format::text: return BenchmarkFormat::text;
    case Format::json: return BenchmarkFormat::json;
    case Format::jsonl: return BenchmarkFormat::jsonl;
    case Format::csv: return BenchmarkFormat::csv;
    case Format::tsv: return BenchmarkFormat::tsv;
  }
  return BenchmarkFormat::text;
}

BenchmarkWriter::BenchmarkWriter(BenchmarkFormat format, std::ostream& out, BenchmarkHeader header)
    : format_(format), out_(out), result_{std::move(header), {}} {
  switch (format_) {
    case BenchmarkFormat::jsonl:
      out_ << OrderedJson({{"schema", 1}, {"header", result_.header}}).dump() << '\n';
      break;
    case BenchmarkFormat::csv:
    case BenchmarkFormat::tsv:
      out_ << delimited_row(column_names(),
                            format_ == BenchmarkFormat::csv ? Format::csv : Format::tsv);
      break;
    case BenchmarkFormat::md: {
      for (const auto& [key, value] : result_.header) out_ << "- " << key << ": " << value << '\n';
      out_ << '\n' << markdown_row(column_names());
      out_ << markdown_row(std::vector<std::string>(column_names().size(), "---"));
      break;
    }
    case BenchmarkFormat::text:
    case BenchmarkFormat::json: break;
  }
  flush_results(out_);
}

void BenchmarkWriter::write(const BenchmarkRow& row) {
  result_.rows.push_back(row);
  switch (format_) {
    case BenchmarkFormat::jsonl: out_ << to_json(row).dump() << '\n'; break;
    case BenchmarkFormat::csv: out_ << delimited_row(cells(row), Format::csv); break;
    case BenchmarkFormat::tsv: out_ << delimited_row(cells(row), Format::tsv); break;
    case BenchmarkFormat::md: out_ << markdown_row(cells(row)); break;
    case BenchmarkFormat::text:
      if (group_.empty())
        for (const auto& [key, value] : result_.header) out_ << key << ": " << value << '\n';
      if (text_group(row) != group_) {
        group_ = text_group(row);
        out_ << '\n' << group_ << '\n' << text_header();
      }
      out_ << text_row(row);
      break;
    case BenchmarkFormat::json: return;
  }
  flush_results(out_);
}

void BenchmarkWriter::finish() {
  if (format_ == BenchmarkFormat::json) {
    OrderedJson rows = OrderedJson::array();
    for (const BenchmarkRow& row : result_.rows) rows.push_back(to_json(row));
    const OrderedJson whole = {{"schema", 1}, {"header", result_.header}, {"rows", rows}};
    out_ << whole.dump(1) << '\n';
  }
  flush_results(out_);
}

BenchmarkResult read_benchmark(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(ErrorCode::not_found, "cannot be opened", file);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  BenchmarkResult result;
  const auto read_header = [&](const nlohmann::json& json) {
    if (json.is_object()) {
      for (const auto& [key, value] : json.items())
        result.header[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  };
  const nlohmann::json whole = nlohmann::json::parse(text, nullptr, false);
  if (whole.is_object() && whole.contains("rows") && whole.at("rows").is_array()) {
    if (whole.contains("header")) read_header(whole.at("header"));
    for (const auto& row : whole.at("rows")) result.rows.push_back(row_from_json(row, file));
    return result;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object())
      throw Error(ErrorCode::failed, "is no benchmark result (json or jsonl)", file);
    if (json.contains("header")) {
      read_header(json.at("header"));
    } else {
      result.rows.push_back(row_from_json(json, file));
    }
  }
  if (result.rows.empty()) throw Error(ErrorCode::failed, "holds no benchmark rows", file);
  return result;
}

}  // namespace hydrascope::app
