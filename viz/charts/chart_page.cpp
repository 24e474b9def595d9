#include "viz/charts/chart_page.h"

#include "viz/html_report/markup.h"

#include <cstddef>

namespace hydrascope::viz {
namespace {

constexpr std::string_view kChartPage = R"(<!doctype html>
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
figure { margin: 0; }
figcaption { font-size: 0.85rem; max-width: 440px; opacity: 0.8; }
.table { margin: 1rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 1px solid #999; }
tr.strong td { border-top: 1px solid #9996; font-weight: bold; }
</style>
</head>
<body>
{{body}}</body>
</html>
)";

}  // namespace

ChartPage::ChartPage(std::string_view title, std::string_view heading) : title_(title) {
  add_element("h1", heading);
}

void ChartPage::add_element(std::string_view tag, std::string_view text) {
  const std::string name(tag);
  body_ += "<" + name + ">" + page::escaped(text) + "</" + name + ">\n";
}

void ChartPage::add_heading(std::string_view text) { add_element("h2", text); }

void ChartPage::add_paragraph(std::string_view text) { add_element("p", text); }

void ChartPage::add_warning(std::string_view text) {
  body_ += "<p><strong>" + page::escaped(text) + "</strong></p>\n";
}

void ChartPage::add_list(std::span<const std::string> items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) add_element("li", item);
  body_ += "</ul>\n";
}

void ChartPage::add_charts(std::span<const LineChart> charts) {
  body_ += "<div class=\"charts\">\n";
  for (const LineChart& chart : charts) {
    body_ += "<figure>" + line_chart_svg(chart);
    if (!chart.caption.empty())
      body_ += "<figcaption>" + page::escaped(chart.caption) + "</figcaption>";
    body_ += "</figure>\n";
  }
  body_ += "</div>\n";
}

void ChartPage::add_table(std::span<const std::vector<std::string>> rows,
                          const std::vector<bool>& strong) {
  body_ += "<div class=\"table\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string tag = i == 0 ? "th" : "td";
    body_ += i == 0 ? "<thead>" : "";
    body_ += i < strong.size() && strong[i] ? "<tr class=\"strong\">" : "<tr>";
    for (const std::string& cell : rows[i])
      body_ += "<" + tag + ">" + page::escaped(cell) + "</" + tag + ">";
    body_ += i == 0 ? "</tr></thead>\n" : "</tr>\n";
  }
  body_ += "</table></div>\n";
}

std::string ChartPage::html() const {
  return page::fill(kChartPage, {{"title", page::escaped(title_)}, {"body", body_}});
}

}  // namespace hydrascope::viz
