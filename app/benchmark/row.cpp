#include "app/benchmark/row.h"

#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "app/run/words.h"
#include "kernels/error.h"
#include "kernels/input_file.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/strict_json.h"
#include "viz/charts/line_chart.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

namespace hydrascope::app {

namespace {

using kernels::device::CpuCeiling;
using kernels::device::CpuRate;

struct NamedRate {
  const char* key;
  std::string_view name;
  std::string_view unit;
  CpuRate CpuCeiling::*rate;
};
constexpr NamedRate kNamedRates[] = {
    {"float32_gflop_per_s", "float32", "GFLOP/s", &CpuCeiling::float32},
    {"bfloat16_gflop_per_s", "bfloat16", "GFLOP/s", &CpuCeiling::bfloat16},
    {"int8_gop_per_s", "int8", "Gop/s", &CpuCeiling::int8},
    {"l2_gb_per_s", "L2", "GB/s", &CpuCeiling::l2_read},
    {"memory_gb_per_s", "memory", "GB/s", &CpuCeiling::memory_read}};
constexpr double kGigaOfRates = 1e9;
constexpr const char* kDisturbedRates = "disturbed";

/// "float32 158 GFLOP/s, ..., memory 20.1 GB/s; disturbed: float32, memory".
std::string ceiling_text(const OrderedJson& ceiling) {
  std::vector<std::string> rates;
  for (const NamedRate& named : kNamedRates) {
    const auto rate = ceiling.at(named.key).get<double>();
    constexpr double kWhole = 100;
    rates.push_back(std::string(named.name) + ' ' + fixed(rate, rate < kWhole ? 1 : 0) + ' ' +
                    std::string(named.unit));
  }
  const auto disturbed = ceiling.at(kDisturbedRates).get<std::vector<std::string>>();
  return join_words(rates, ", ", ", ") +
         (disturbed.empty() ? "" : "; disturbed: " + join_words(disturbed, ", ", ", "));
}

/// A value of the head in words.
std::string header_text(const OrderedJson& value) {
  return value.is_object() ? ceiling_text(value) : cell_text(value);
}

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] * (1 - share) + sorted[above] * share;
}

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return percentile(sorted, 0.5);
}

OrderedJson to_json(const BenchmarkRow& row) {
  OrderedJson json = OrderedJson::object();
  BenchmarkRow::visit(
      row, [&](std::string_view name, const auto& value) { json[std::string(name)] = value; });
  return json;
}

/// Words for people, values for programs.
OrderedJson header_json(const BenchmarkHeader& header, Format format) {
  const bool is_json = format == Format::json || format == Format::jsonl;
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : header)
    json[key] = is_json ? value : OrderedJson(header_text(value));
  return json;
}

/// As `RecordStream` takes them.
std::string column_names() {
  std::string names;
  const BenchmarkRow row;
  BenchmarkRow::visit(
      row, [&](std::string_view name, const auto&) { names += std::string(name) + ' '; });
  return names;
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

std::string subject_of(const BenchmarkRow& row) { return row.model + " on " + row.device; }

/// The line above every text table of one model on one device; the card speaks of one size alone.
std::string text_group(const BenchmarkRow& row) {
  return subject_of(row) + (row.top1 > 0 ? ", top-1 " + fixed(row.top1, 1) + " % (card)" : "");
}

/// Above the peak that was measured the machine did something else meanwhile: the share says nothing.
bool is_of_peak(const BenchmarkRow& row) {
  constexpr double kAll = 100;
  return row.pct_of_peak <= kAll;
}

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
  cells.push_back(short_number(row.gflops_per_image));
  cells.push_back(is_of_peak(row) ? short_number(row.pct_of_peak) : "-");
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
    const bool is_later =
        name == "approximations" || name == "error" || name == "top1" || name == "pct_of_memory";
    if (is_later && !json.contains(name)) return;  // of an earlier version
    try {
      read(json.at(std::string(name)), value);
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorCode::failed,
                  "a row's " + std::string(name) + ": " + checkpoint::json_reason(error), file);
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

OrderedJson to_json(const CpuCeiling& ceiling) {
  OrderedJson json{{"threads", ceiling.threads}};
  OrderedJson disturbed = OrderedJson::array();
  for (const NamedRate& named : kNamedRates) {
    const CpuRate& rate = ceiling.*named.rate;
    json[named.key] = rate.best / kGigaOfRates;
    if (rate.disturbed) disturbed.push_back(named.name);
  }
  json[kDisturbedRates] = std::move(disturbed);
  return json;
}

TimingSummary summarise(std::span<const double> samples) {
  if (samples.empty()) throw Error(ErrorCode::internal, "no samples to summarise");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  TimingSummary summary;
  summary.p50 = percentile(sorted, 0.50);
  summary.p90 = percentile(sorted, 0.90);
  summary.p99 = percentile(sorted, 0.99);
  const auto count = static_cast<double>(sorted.size());
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
  summary.stddev = sorted.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return summary;
}

bool settled(std::span<const double> samples, std::size_t window) {
  if (samples.size() < 2 * window) return false;
  const double last = median(samples.last(window));
  const double before = median(samples.subspan(samples.size() - 2 * window, window));
  constexpr double kTolerance = 0.02;
  return std::abs(last - before) <= kTolerance * before;
}

BenchmarkWriter::BenchmarkWriter(Format format, std::ostream& out, const BenchmarkHeader& header)
    : records_(format, out, column_names(), "", header_json(header, format)) {}

void BenchmarkWriter::write(const BenchmarkRow& row) {
  std::string text;
  if (std::string group = text_group(row); group != group_) {
    text = '\n' + group + '\n' + text_header();
    group_ = std::move(group);
  }
  records_.write(to_json(row), printable_lines(text + text_row(row)));
}

std::vector<BenchmarkRow> read_rows(const std::string& file) {
  InputFile stream(file);
  if (!stream) throw Error(ErrorCode::not_found, "cannot be opened", file);
  const std::string text = stream.text();
  std::vector<BenchmarkRow> rows;
  const nlohmann::json whole = nlohmann::json::parse(text, nullptr, false);
  if (whole.is_object() && whole.contains("rows") && whole.at("rows").is_array()) {
    for (const auto& row : whole.at("rows")) rows.push_back(row_from_json(row, file));
    return rows;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object())
      throw Error(ErrorCode::failed, "is no benchmark result (json or jsonl)", file);
    if (!json.contains("header")) rows.push_back(row_from_json(json, file));
  }
  if (rows.empty()) throw Error(ErrorCode::failed, "holds no benchmark rows", file);
  return rows;
}

std::vector<std::string> slower_rows(const std::vector<BenchmarkRow>& baseline,
                                     const std::vector<BenchmarkRow>& now, double percent) {
  std::vector<std::string> slower;
  for (const BenchmarkRow& row : now) {
    const auto before = std::ranges::find(baseline, row.key(), &BenchmarkRow::key);
    if (before == baseline.end()) {
      slower.push_back(row.key() + ": not in the baseline");
    } else if (row.images_per_second < before->images_per_second * (1 - percent / 100)) {
      slower.push_back(row.key() + ": " + fixed(row.images_per_second, 2) + " images/s, was " +
                       fixed(before->images_per_second, 2));
    }
  }
  return slower;
}

namespace {

/// Names that set lines apart: the attention, and what else tells rows of one name apart.
std::vector<std::string> line_names(const std::vector<BenchmarkRow>& rows) {
  using Text = std::string (*)(const BenchmarkRow&);
  constexpr Text kParts[] = {
      [](const BenchmarkRow& row) { return row.model; },
      [](const BenchmarkRow& row) { return "batch " + std::to_string(row.batch); },
      [](const BenchmarkRow& row) { return row.precision; },
      [](const BenchmarkRow& row) { return row.device; },
      [](const BenchmarkRow& row) { return row.kernels; },
      [](const BenchmarkRow& row) { return row.stage; },
      [](const BenchmarkRow& row) { return row.approximations; }};
  std::vector<std::string> names;
  for (const BenchmarkRow& row : rows) names.push_back(row.attention);
  for (const Text& part : kParts) {
    std::map<std::string, std::string> parts;  // of the names
    bool differs = false;
    for (std::size_t i = 0; i < rows.size(); ++i)
      differs =
          differs || parts.try_emplace(names[i], part(rows[i])).first->second != part(rows[i]);
    if (!differs) continue;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (const std::string text = part(rows[i]); !text.empty()) names[i] += ", " + text;
  }
  return names;
}

/// Column `y` over the pixels, which models of one size have in common; their tokens may differ.
viz::LineChart chart_of(const ResultTable& table, const std::string& y, std::string title) {
  constexpr int kWidth = 500;
  constexpr int kHeight = 400;
  viz::LineChart chart{title, "image size, by its pixels", std::move(title),
                       lines_of(table, "pixels", y, "line"), true};
  if (chart.lines.size() == 1) chart.title += ": " + chart.lines.front().name;
  chart.width = kWidth;
  chart.height = kHeight;
  for (const OrderedJson& row : table.json()) {
    const auto pixels = row.at("pixels").get<double>();
    if (std::ranges::find(chart.x_marks, pixels, &std::pair<double, std::string>::first) ==
        chart.x_marks.end())
      chart.x_marks.emplace_back(pixels, row.at("size").get<std::string>());
  }
  return chart;
}

/// A bar for every row: its value, how many times the smallest that is, and what else is to be said.
viz::LineChart bars_of(const std::vector<BenchmarkRow>& rows, const std::vector<std::string>& names,
                       std::string title, double (*value)(const BenchmarkRow&), int decimals) {
  viz::LineChart chart{std::move(title) + " at " + size_text(rows.front()), "", "", {}};
  chart.bars = true;
  constexpr int kWidth = 500;
  chart.width = kWidth;
  const double least = value(*std::ranges::min_element(rows, {}, value));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double own = value(rows[i]);
    std::string note = fixed(own, decimals);
    constexpr double kMuch = 1.05;
    if (least > 0 && own > kMuch * least) note += ", " + fixed(own / least, 1) + " x the least";
    if (rows[i].top1 > 0) note += ", top-1 " + fixed(rows[i].top1, 1) + " %";
    chart.lines.push_back({names[i], {{0, own}}, true, {std::move(note)}});
  }
  return chart;
}

std::vector<viz::LineChart> charts_of(const BenchmarkResult& result) {
  std::vector<BenchmarkRow> rows = result.rows;
  std::erase_if(rows, [](const BenchmarkRow& row) { return !row.error.empty(); });
  const auto pixels = [](const BenchmarkRow& row) { return row.img_size[0] * row.img_size[1]; };
  std::ranges::stable_sort(rows, {}, pixels);
  const std::vector<std::string> names = line_names(rows);
  const auto megabytes = [](const BenchmarkRow& row) {
    return static_cast<double>(row.peak_memory_bytes) / 1e6;
  };
  const bool is_one_size = !rows.empty() && rows.front().img_size == rows.back().img_size;
  if (is_one_size) {
    return {bars_of(
                rows, names, "images/s",
                [](const BenchmarkRow& row) { return row.images_per_second; }, 2),
            bars_of(rows, names, "peak memory, MB", megabytes, 0)};
  }
  ResultTable table({{"line", ""}, {"pixels", ""}, {"size", ""}, {"speed", ""}, {"memory", ""}});
  for (std::size_t i = 0; i < rows.size(); ++i)
    table.add({names[i], pixels(rows[i]), size_text(rows[i]), rows[i].images_per_second,
               megabytes(rows[i])});
  return {chart_of(table, "speed", "images/s"), chart_of(table, "memory", "peak memory, MB")};
}

}  // namespace

Report report_of(const BenchmarkResult& result) {
  std::vector<std::string> subjects;
  for (const BenchmarkRow& row : result.rows)
    if (std::string subject = subject_of(row);
        std::ranges::find(subjects, subject) == subjects.end())
      subjects.push_back(std::move(subject));
  Report report("hydrascope benchmark: " + (subjects.size() == 1
                                                ? subjects.front()
                                                : std::to_string(subjects.size()) + " models"));
  for (const char* key : {"cpu", "instruction_sets", "threads"})
    if (const auto found = result.header.find(key); found != result.header.end())
      report.line += (report.line.empty() ? "" : " \u00b7 ") + header_text(found->second);
  if (!report.line.empty()) report.line += " threads";
  if (subjects.size() > 1) report.add("models", join_words(subjects, ", ", ", "));
  for (const auto& [key, value] : result.header) report.add(key, header_text(value));
  report.charts = charts_of(result);
  std::vector<TableColumn> columns{{"attention", "attention"},
                                   {"size", "size"},
                                   {"tokens", "tokens"},
                                   {"batch", "batch"},
                                   {"precision", "precision"},
                                   {"images_per_second", "images/s", 2},
                                   {"time_p50", "time p50"},
                                   {"peak_memory", "peak MB"},
                                   {"pct_of_peak", "% of peak", 2},
                                   {"top1", "top-1 % (card)", 1}};
  const bool are_several = subjects.size() > 1;  // else the title names it
  if (are_several) columns.insert(columns.begin(), TableColumn{"model", "model"});
  ResultTable table(std::move(columns));
  for (const BenchmarkRow& row : result.rows) {
    std::vector<OrderedJson> cells{row.attention,
                                   size_text(row),
                                   row.tokens,
                                   row.batch,
                                   row.precision,
                                   row.images_per_second,
                                   duration(row.ms_p50 / 1e3),
                                   row.peak_memory_bytes / 1'000'000,
                                   is_of_peak(row) ? OrderedJson(row.pct_of_peak) : OrderedJson(),
                                   row.top1 > 0 ? OrderedJson(row.top1) : OrderedJson()};
    if (are_several) cells.insert(cells.begin(), OrderedJson(row.model));
    table.add(std::move(cells));
  }
  report.add_table("rows", "", std::move(table), kMain);
  return report;
}

void check_chart_file(const std::string& file) {
  check_extension(file, "`html`", {".svg", ".html"});
  check_output_file(file, "`html`");
}

}  // namespace hydrascope::app
