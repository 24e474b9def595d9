#include "model/training/log/metric_log.h"

#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace hydrascope::model::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSummaryFile = "summary.csv";
constexpr std::string_view kLines = "metrics.jsonl";
constexpr std::string_view kFirstColumns = "epoch,step";

const fs::path& made(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::failed, "cannot be made: " + error.message(), folder.native());
  }
  return folder;
}

/// Bytes of the whole lines in front of the first one that `keep` refuses.
template <class Keep>
std::size_t kept_lines(std::string_view bytes, Keep keep) {
  std::size_t kept = 0;
  while (true) {
    const std::size_t end = bytes.find('\n', kept);
    if (end == std::string_view::npos || !keep(bytes.substr(kept, end - kept))) return kept;
    kept = end + 1;
  }
}

std::optional<std::int64_t> step_of_json(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

/// The second cell of a row.
std::optional<std::int64_t> step_of_row(std::string_view row) {
  const std::size_t comma = row.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  std::int64_t step = 0;
  const auto parsed = std::from_chars(row.data() + comma + 1, row.data() + row.size(), step);
  return parsed.ec == std::errc() ? std::optional(step) : std::nullopt;
}

/// No header without a row: the first row decides about the columns.
std::size_t kept_summary(std::string_view bytes, std::int64_t last_step) {
  bool is_header = true;
  int rows = -1;
  const std::size_t kept = kept_lines(bytes, [&](std::string_view line) {
    const bool keep = is_header ? line.starts_with(kFirstColumns)
                                : step_of_row(line).value_or(last_step + 1) <= last_step;
    is_header = false;
    if (keep) ++rows;
    return keep;
  });
  return rows > 0 ? kept : 0;
}

std::vector<std::string> columns_of(std::string_view summary) {
  std::vector<std::string> columns;
  std::string_view rest = summary.substr(0, summary.find('\n'));
  if (rest.empty()) return columns;
  rest.remove_prefix(kFirstColumns.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    columns.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(columns.back().size());
  }
  return columns;
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

void check_names(const Scalars& values) {
  for (const auto& [name, value] : values) {
    if (name.empty() || name == "step" || name == "epoch" ||
        name.find_first_of(",\"\r\n") != std::string::npos) {
      throw Error(ErrorCode::internal, "is no name of a metric: '" + name + "'", "metric log");
    }
  }
}

void write_line(std::ofstream& file, const std::string& line, const fs::path& path) {
  file << line << '\n' << std::flush;
  if (!file) throw Error(ErrorCode::failed, "cannot be written", path.native());
}

}  // namespace

MetricLog::MetricLog(const fs::path& folder, std::int64_t resumed_step)
    : folder_(folder), events_(made(folder), resumed_step) {
  columns_ = columns_of(keep_records(folder_ / kSummaryFile, [&](std::string_view bytes) {
    return kept_summary(bytes, resumed_step);
  }));
  keep_records(folder_ / kLines, [&](std::string_view bytes) {
    return kept_lines(bytes, [&](std::string_view line) {
      return step_of_json(line).value_or(resumed_step + 1) <= resumed_step;
    });
  });
  summary_.open(folder_ / kSummaryFile, std::ios::binary | std::ios::app);
  lines_.open(folder_ / kLines, std::ios::binary | std::ios::app);
  if (!summary_ || !lines_)
    throw Error(ErrorCode::failed, "cannot be written", (folder_ / kSummaryFile).native());
}

void MetricLog::add(const MetricRecord& record) {
  check_names(record.values);
  nlohmann::ordered_json object{{"step", record.step}, {"epoch", record.epoch}};
  for (const auto& [name, value] : record.values) object[name] = value;  // not finite: null
  write_line(lines_, object.dump(), folder_ / kLines);
  events_.add(record.step, record.values);
}

void MetricLog::add_epoch(const MetricRecord& record) {
  add(record);
  if (fs::file_size(folder_ / kSummaryFile) == 0) {
    std::string header(kFirstColumns);
    for (const auto& [name, value] : record.values) {
      columns_.push_back(name);
      header += "," + name;
    }
    write_line(summary_, header, folder_ / kSummaryFile);
  }
  std::string row = std::to_string(record.epoch) + "," + std::to_string(record.step);
  for (const std::string& column : columns_) {
    const auto found = std::ranges::find(record.values, column, &Scalars::value_type::first);
    row += ",";
    if (found != record.values.end()) row += shortest(found->second);
  }
  write_line(summary_, row, folder_ / kSummaryFile);
}

}  // namespace hydrascope::model::training
