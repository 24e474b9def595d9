// The page of a DiagnosticsReport.
#include "app/evaluate/diagnostics_report.h"
#include "app/results/json.h"
#include "viz/html_report/markup.h"
#include "viz/line_chart.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

using viz::page::escaped;

constexpr std::string_view kPage = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{{title}}</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 92rem; padding: 0 1rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; max-width: 440px; }
figcaption { font-size: 0.85rem; opacity: 0.8; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.7rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid #999; }
tr.layer td { border-top: 1px solid #9996; font-weight: bold; }
</style>
</head>
<body>
<h1>{{title}}</h1>
<p>{{facts}}</p>
{{notes}}<div class="charts">
{{charts}}</div>
<h2>All numbers</h2>
<div class="table"><table>
{{table}}</table></div>
</body>
</html>
)";

/// The layers' means in front of the heads'.
std::string chart_of(const DiagnosticsReport& report, std::size_t column) {
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
  for (auto& [head, line] : heads) chart.lines.push_back(std::move(line));
  return "<figure>" + viz::line_chart_svg(chart) + "<figcaption>" + escaped(of.summary) +
         "</figcaption></figure>\n";
}

std::string table_of(const DiagnosticsReport& report) {
  std::string html = "<thead><tr><th>layer</th><th>head</th><th>mechanism</th>";
  for (const auto& column : report.columns) html += "<th>" + escaped(column.title) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  constexpr int kDecimals = 4;
  for (const DiagnosticsReport::Row& row : report.rows) {
    html += std::string(row.is_of_layer() ? "<tr class=\"layer\">" : "<tr>") + "<td>" +
            std::to_string(row.layer) + "</td><td>" +
            (row.is_of_layer() ? "all" : std::to_string(row.head)) + "</td><td>" +
            escaped(row.mechanism) + "</td>";
    for (const double value : row.values)
      html += "<td>" + (std::isfinite(value) ? fixed(value, kDecimals) : "") + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody>\n";
}

}  // namespace

std::string DiagnosticsReport::page() const {
  std::string facts = escaped(model) + ", attention " + escaped(attention);
  if (!against.empty())
    facts += ", against " + escaped(against) + ", attention " + escaped(against_attention);
  facts += "; " + std::to_string(images) + (images == 1 ? " picture, " : " pictures, ") +
           std::to_string(queries) + " queries each. A grey line is a head.";
  std::string paragraphs;
  for (const std::string& note : notes) paragraphs += "<p>" + escaped(note) + "</p>\n";
  std::string charts;
  for (std::size_t column = 0; column < columns.size(); ++column) charts += chart_of(*this, column);
  return viz::page::fill(kPage, {{"title", "Attention by layer and head"},
                                 {"facts", facts},
                                 {"notes", paragraphs},
                                 {"charts", charts},
                                 {"table", table_of(*this)}});
}

}  // namespace hydrascope::app
