#include "app/evaluate/diagnostics_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace hydrascope::app {

void DiagnosticsReport::drop_empty_columns() {
  for (std::size_t i = columns.size(); i-- > 0;) {
    const auto has_number = [&](const Row& row) { return std::isfinite(row.values[i]); };
    if (std::ranges::any_of(rows, has_number)) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    columns.erase(columns.begin() + at);
    for (Row& row : rows) row.values.erase(row.values.begin() + at);
  }
}

Report DiagnosticsReport::report() const {
  Report report("Attention by layer and head");
  report.add("model", model);
  report.add("attention", attention);
  if (!against.empty()) {
    report.add("against", against);
    report.add("against_attention", against_attention);
  }
  report.add("images", images);
  report.add("failed", failed);
  report.add("queries", queries);
  OrderedJson summaries = OrderedJson::object();
  std::vector<TableColumn> list{{"layer", "layer"}, {"head", "head"}, {"mechanism", "mechanism"}};
  for (const Column& column : columns) {
    list.push_back({column.key, column.title});
    summaries[column.key] = column.summary;
    report.remarks.push_back(column.title + ": " + column.summary);
  }
  report.remarks.emplace_back(
      "queries: rows of a picture that were judged; a row without a head is "
      "its layer's, a grey line of a chart is a head");
  ResultTable table(std::move(list));
  for (const Row& row : rows) {
    std::vector<OrderedJson> cells{
        row.layer, row.is_of_layer() ? OrderedJson() : OrderedJson(row.head), row.mechanism};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    table.add(std::move(cells), row.is_of_layer());
  }
  for (const Column& column : columns) {
    viz::LineChart chart{column.title, "layer", "", lines_of(table, "layer", column.key, "head")};
    for (viz::ChartLine& line : chart.lines) {
      line.in_front = line.name.empty();
      line.name = line.in_front ? "all heads" : "head " + line.name;
    }
    chart.caption = column.summary;
    report.charts.push_back(std::move(chart));
  }
  report.summary.add("columns", std::move(summaries), 0, kInJson);
  report.add_table("rows", "", std::move(table), kMain);
  report.summary.add("notes", notes, 0, kInJson);
  report.notes = notes;
  return report;
}

}  // namespace hydrascope::app
