#include "app/benchmark/chart.h"

#include "app/results/table.h"
#include "app/run/output_file.h"
#include "kernels/error.h"
#include "viz/charts/chart_page.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hydrascope::app {
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
  viz::ChartPage page("hydrascope benchmark", "hydrascope benchmark");
  std::vector<std::string> facts;
  for (const auto& [key, value] : result.header) facts.push_back(key + ": " + value);
  page.add_list(facts);
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
  page.add_table(table.texts());
  return page.html();
}

}  // namespace

std::string chart_svg(const BenchmarkResult& result) { return viz::charts_svg(charts_of(result)); }

void check_chart_file(const std::string& file) {
  if (!file.ends_with(".svg") && !file.ends_with(".html")) {
    throw Error(ErrorCode::invalid_argument, "expected a file ending in .svg or .html",
                "--plot " + file);
  }
  check_output_file(file, "--plot");
}

void write_chart(const BenchmarkResult& result, const std::string& file) {
  check_chart_file(file);
  OutputFile output(file, "--plot");
  output.stream() << (file.ends_with(".svg") ? chart_svg(result) : page_of(result));
  output.close();
}

}  // namespace hydrascope::app
