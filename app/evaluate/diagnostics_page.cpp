// The page of a DiagnosticsReport.
#include "app/evaluate/diagnostics_report.h"
#include "viz/charts/chart_page.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace hydrascope::app {
namespace {

/// The layers' means in front of the heads'.
viz::LineChart chart_of(const DiagnosticsReport& report, std::size_t column) {
  viz::ChartLine mean{"all heads", {}};
  std::map<std::int64_t, viz::ChartLine> heads;
  for (const DiagnosticsReport::Row& row : report.rows) {
    if (!row.is_of_layer())
      heads.try_emplace(row.head, viz::ChartLine{"head " + std::to_string(row.head), {}, false});
    viz::ChartLine& line = row.is_of_layer() ? mean : heads.at(row.head);
    line.points.emplace_back(static_cast<double>(row.layer), row.values[column]);
  }
  const DiagnosticsReport::Column& of = report.columns[column];
  viz::LineChart chart{of.title, "layer", "", {std::move(mean)}};
  chart.caption = of.summary;
  for (auto& [head, line] : heads) chart.lines.push_back(std::move(line));
  return chart;
}

}  // namespace

std::string DiagnosticsReport::page() const {
  constexpr const char* kTitle = "Attention by layer and head";
  viz::ChartPage page(kTitle, kTitle);
  std::string facts = model + ", attention " + attention;
  if (!against.empty()) facts += ", against " + against + ", attention " + against_attention;
  facts += "; " + std::to_string(images) + (images == 1 ? " picture, " : " pictures, ") +
           std::to_string(queries) + " queries each. A grey line is a head.";
  page.add_paragraph(facts);
  for (const std::string& note : notes) page.add_paragraph(note);
  std::vector<viz::LineChart> charts;
  for (std::size_t column = 0; column < columns.size(); ++column)
    charts.push_back(chart_of(*this, column));
  page.add_charts(charts);
  page.add_heading("All numbers");
  std::vector<bool> of_layers{false};  // the titles
  for (const Row& row : rows) of_layers.push_back(row.is_of_layer());
  page.add_table(table().texts(), of_layers);
  return page.html();
}

}  // namespace hydrascope::app
