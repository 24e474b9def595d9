#include "app/benchmark/row.h"

#include "app/results/json.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/strict_json.h"
#include "viz/charts/chart_page.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace hydrascope::app {

namespace {

OrderedJson to_json(const BenchmarkRow& row) {
  OrderedJson json = OrderedJson::object();
  BenchmarkRow::visit(
      row, [&](std::string_view name, const auto& value) { json[std::string(name)] = value; });
  return json;
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  const OrderedJson row = to_json({});
  for (const auto& [name, value] : row.items()) names.push_back(name);
  return names;
}

std::vector<std::string> cells(const BenchmarkRow& row) {
  std::vector<std::string> values;
  const OrderedJson json = to_json(row);
  for (const auto& [name, value] : json.items()) {
    values.push_back(name == "img_size"        ? size_text(row)
                     : value.is_number_float() ? cell_text(rounded(value.get<double>()))
                                               : cell_text(value));
  }
  return values;
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
  std::vector<std::string> cells{what, size_text(row), std::to_string(row.batch), row.precision};
  if (!row.error.empty()) {
    std::string line = text_line(cells);
    return line.insert(line.size() - 1, "  " + row.error);
  }
  for (const double value : {row.images_per_second, row.ms_p50, row.ms_p90})
    cells.push_back(short_number(value));
  cells.push_back(std::to_string(row.peak_memory_bytes / 1'000'000));
  for (const double value : {row.gflops_per_image, row.pct_of_peak})
    cells.push_back(short_number(value));
  return text_line(cells);
}

void read(const nlohmann::json& json, std::int64_t& value) {
  value = checkpoint::whole_number(json);
}
void read(const nlohmann::json& json, std::array<std::int64_t, 2>& value) {
  for (std::size_t i = 0; i < value.size(); ++i) read(json.at(i), value[i]);
}
template <class Value>
void read(const nlohmann::json& json, Value& value) {
  value = json.get<Value>();
}

BenchmarkRow row_from_json(const nlohmann::json& json, const std::string& file) {
  BenchmarkRow row;
  BenchmarkRow::visit(row, [&](std::string_view name, auto& value) {
    const bool is_later = name == "approximations" || name == "error";
    if (is_later && !json.contains(name)) return;  // of an earlier version
    try {
      read(json.at(std::string(name)), value);
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorCode::failed, "a row's " + std::string(name) + ": " + error.what(), file);
    }
  });
  return row;
}

}  // namespace

std::string size_text(const BenchmarkRow& row) {
  return std::to_string(row.img_size[0]) + "x" + std::to_string(row.img_size[1]);
}

std::string BenchmarkRow::key() const {
  return model + " " + attention + " " + size_text(*this) + " batch " + std::to_string(batch) +
         " " + precision + " " + device + " " + kernels + " " + stage +
         (attention_options.empty() ? "" : " " + attention_options) +
         (approximations.empty() ? "" : " " + approximations) + (error.empty() ? "" : " " + error);
}

Format choose_benchmark_format(std::string_view format, std::string_view output) {
  return format.empty() && output.ends_with(".md") ? Format::md : choose_format(format, output);
}

BenchmarkWriter::BenchmarkWriter(Format format, std::ostream& out, BenchmarkHeader header)
    : format_(format), out_(out), result_{std::move(header), {}} {
  if (format_ == Format::jsonl)
    out_ << OrderedJson({{"schema", 1}, {"header", result_.header}}).dump() << '\n';
  if (format_ == Format::md) {
    for (const auto& [key, value] : result_.header) out_ << "- " << key << ": " << value << '\n';
    out_ << '\n';
  }
  if (is_rows(format_) || format_ == Format::md) out_ << header_row(column_names(), format_);
  flush_results(out_);
}

void BenchmarkWriter::write(const BenchmarkRow& row) {
  result_.rows.push_back(row);
  switch (format_) {
    case Format::json: return;
    case Format::jsonl: out_ << to_json(row).dump() << '\n'; break;
    case Format::text:
      if (group_.empty())
        for (const auto& [key, value] : result_.header) out_ << key << ": " << value << '\n';
      if (text_group(row) != group_) {
        group_ = text_group(row);
        out_ << '\n' << group_ << '\n' << text_header();
      }
      out_ << text_row(row);
      break;
    default: out_ << delimited_row(cells(row), format_);
  }
  flush_results(out_);
}

void BenchmarkWriter::finish() {
  if (format_ == Format::json) {
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
        result.header[key] = value.is_string()       ? value.get<std::string>()
                             : value.is_structured() ? checkpoint::describe(value)
                                                     : value.dump();
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

namespace {

struct Series {
  std::string name;
  std::vector<const BenchmarkRow*> rows;  ///< by tokens
};

/// Lines named by what differs between them.
std::vector<Series> series_of(const std::vector<BenchmarkRow>& rows) {
  const auto several = [&](auto member) {
    return std::ranges::any_of(
        rows, [&](const BenchmarkRow& row) { return row.*member != rows.front().*member; });
  };
  const bool models = several(&BenchmarkRow::model);
  const bool batches = several(&BenchmarkRow::batch);
  const bool precisions = several(&BenchmarkRow::precision);
  const bool devices = several(&BenchmarkRow::device);
  const bool kernels = several(&BenchmarkRow::kernels);
  const bool stages = several(&BenchmarkRow::stage);
  const bool approximations = several(&BenchmarkRow::approximations);
  std::vector<Series> list;
  for (const BenchmarkRow& row : rows) {
    if (!row.error.empty()) continue;
    std::string name = row.attention;
    if (models) name += ", " + row.model;
    if (batches) name += ", batch " + std::to_string(row.batch);
    if (precisions) name += ", " + row.precision;
    if (devices) name += ", " + row.device;
    if (kernels) name += ", " + row.kernels;
    if (stages) name += ", " + row.stage;
    if (approximations && !row.approximations.empty()) name += ", " + row.approximations;
    auto found = std::ranges::find(list, name, &Series::name);
    if (found == list.end()) found = list.insert(list.end(), {name, {}});
    found->rows.push_back(&row);
  }
  for (Series& series : list) std::ranges::sort(series.rows, {}, &BenchmarkRow::tokens);
  return list;
}

/// One value of every row over its tokens.
viz::LineChart chart_of(const std::vector<Series>& list, std::string title,
                        double (*value)(const BenchmarkRow&)) {
  constexpr int kWidth = 500;
  constexpr int kHeight = 400;
  viz::LineChart chart{std::move(title), "image size, by its tokens", "", {}, true};
  if (list.size() == 1) chart.title += ": " + list.front().name;  // there is no legend
  chart.width = kWidth;
  chart.height = kHeight;
  for (const Series& series : list) {
    viz::ChartLine& line = chart.lines.emplace_back(viz::ChartLine{series.name, {}});
    for (const BenchmarkRow* row : series.rows) {
      const auto tokens = static_cast<double>(row->tokens);
      line.points.emplace_back(tokens, value(*row));
      if (std::ranges::find(chart.x_marks, tokens, &std::pair<double, std::string>::first) ==
          chart.x_marks.end())
        chart.x_marks.emplace_back(tokens, size_text(*row));
    }
  }
  return chart;
}

std::vector<viz::LineChart> charts_of(const BenchmarkResult& result) {
  const std::vector<Series> list = series_of(result.rows);
  return {chart_of(list, "images/s", [](const BenchmarkRow& row) { return row.images_per_second; }),
          chart_of(list, "peak memory, MB", [](const BenchmarkRow& row) {
            return static_cast<double>(row.peak_memory_bytes) / 1e6;
          })};
}

std::string page_of(const BenchmarkResult& result) {
  constexpr std::string_view kTitle = "hydrascope benchmark";
  viz::ChartPage page(kTitle, kTitle, {result.header.begin(), result.header.end()});
  page.add_charts(charts_of(result));
  ResultTable table({{"attention", "attention"},
                     {"size", "size"},
                     {"tokens", "tokens"},
                     {"batch", "batch"},
                     {"precision", "precision"},
                     {"images_per_second", "images/s", 2},
                     {"ms_p50", "ms p50", 2},
                     {"peak_memory", "peak MB"},
                     {"pct_of_peak", "% of peak", 2}});
  for (const BenchmarkRow& row : result.rows) {
    table.add({row.attention, size_text(row), row.tokens, row.batch, row.precision,
               row.images_per_second, row.ms_p50, row.peak_memory_bytes / 1'000'000,
               row.pct_of_peak});
  }
  page.add_table(table.texts(), table.to_left());
  return page.html();
}

}  // namespace

std::string chart_svg(const BenchmarkResult& result) { return viz::charts_svg(charts_of(result)); }

void check_chart_file(const std::string& file) {
  if (!file.ends_with(".svg") && !file.ends_with(".html")) {
    throw UsageError("expected a file ending in .svg or .html", "--html " + file);
  }
  check_output_file(file, "--html");
}

void write_chart(const BenchmarkResult& result, const std::string& file) {
  check_chart_file(file);
  OutputFile output(file, "--html");
  output.stream() << (file.ends_with(".svg") ? chart_svg(result) : page_of(result));
  output.close();
}

}  // namespace hydrascope::app
