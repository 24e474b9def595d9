#include "app/evaluate/diagnostics_report.h"

#include "app/pictures/file_extension.h"
#include "app/run/console.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "viz/charts/chart_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {

namespace {

constexpr std::array<std::string_view, 5> kExtensions{".json", ".html", ".csv", ".tsv", ".txt"};

}  // namespace

void DiagnosticsReport::drop_empty_columns() {
  for (std::size_t i = columns.size(); i-- > 0;) {
    const auto has_number = [&](const Row& row) { return std::isfinite(row.values[i]); };
    if (std::ranges::any_of(rows, has_number)) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    columns.erase(columns.begin() + at);
    for (Row& row : rows) row.values.erase(row.values.begin() + at);
  }
}

ResultTable DiagnosticsReport::table() const {
  std::vector<TableColumn> list{{"layer", "layer"}, {"head", "head"}, {"mechanism", "mechanism"}};
  for (const Column& column : columns) list.push_back({column.key, column.title});
  ResultTable table(std::move(list));
  for (const Row& row : rows) {
    std::vector<OrderedJson> cells{
        row.layer, row.is_of_layer() ? OrderedJson() : OrderedJson(row.head), row.mechanism};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    table.add(std::move(cells));
  }
  return table;
}

OrderedJson DiagnosticsReport::json() const {
  OrderedJson object = {{"model", model}, {"attention", attention}};
  if (!against.empty()) {
    object["against"] = against;
    object["against_attention"] = against_attention;
  }
  object["images"] = images;
  object["failed"] = failed;
  object["queries"] = queries;
  OrderedJson& summaries = object["columns"] = OrderedJson::object();
  for (const Column& column : columns) summaries[column.key] = column.summary;
  object["rows"] = table().json();
  object["notes"] = notes;
  return object;
}

void DiagnosticsReport::write_text(std::ostream& out) const {
  table().write(Format::text, out);
  out << '\n';
  for (const Column& column : columns) out << column.title << ": " << column.summary << '\n';
  out << "over " << images << (images == 1 ? " picture, " : " pictures, ");
  if (failed > 0) out << failed << " more failed, ";
  out << queries << " queries each; rows without a head are their layer's\n";
  for (const std::string& note : notes) out << "note: " << printable(note) << '\n';
  flush_results(out);
}

void DiagnosticsReport::write(Format format, std::ostream& out) const {
  if (format == Format::text) {
    write_text(out);
  } else if (is_rows(format)) {
    table().write(format, out);
  } else {
    OrderedJson object;
    object["schema"] = 1;
    object.update(json());
    out << json_text(object) << '\n';
  }
  flush_results(out);
}

void check_diagnostics_file(const std::string& file, const std::string& option) {
  if (file == "-" || std::ranges::find(kExtensions, lower_extension(file)) != kExtensions.end())
    return;
  throw UsageError("expected a file ending in .json, .html, .csv, .tsv or .txt, or -",
                   option + " " + file);
}

void write_diagnostics(const DiagnosticsReport& report, const std::string& file,
                       const std::string& option) {
  OutputFile output(file, option);
  if (lower_extension(file) == ".html") {
    output.stream() << report.page();
    flush_results(output.stream());
  } else {
    report.write(choose_format("", file), output.stream());
  }
  output.close();
}

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
  page.add_table(table().texts(), table().to_left(), of_layers);
  return page.html();
}

}  // namespace hydrascope::app
