#include "app/results/report.h"

#include "app/results/file_extension.h"
#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "viz/figure/figure.h"
#include "viz/picture/encode.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace hydrascope::app {

std::vector<viz::ChartLine> lines_of(const ResultTable& table, std::string_view x,
                                     std::string_view y, std::string_view by) {
  std::vector<viz::ChartLine> lines;
  const auto number = [](const OrderedJson& cell) {
    return cell.is_number() ? cell.get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  for (const OrderedJson& row : table.json()) {
    const std::string name = by.empty() ? std::string(y) : cell_text(row.at(std::string(by)));
    auto line = std::ranges::find(lines, name, &viz::ChartLine::name);
    if (line == lines.end()) line = lines.insert(line, viz::ChartLine{name, {}});
    line->points.emplace_back(number(row.at(std::string(x))), number(row.at(std::string(y))));
  }
  return lines;
}

viz::Canvas thumbnail(const viz::Canvas& picture) {
  return viz::fitted(picture, kGalleryEdge, kGalleryEdge);
}

Report Report::of(std::string title, ResultTable table) {
  Report report(std::move(title));
  report.is_one_table_ = true;
  report.add_table("", "", std::move(table), kMain);
  return report;
}

void Report::add_table(std::string key, std::string title, ResultTable table, unsigned places) {
  tables_.push_back({std::move(key), std::move(title), std::move(table), places});
}

void Report::add_part(const std::string& key, Report part) {
  summary.add(key, part.json(), 0, kInJson);
  for (NamedTable& table : part.tables_) {
    table.places &= ~unsigned{kInJson};
    tables_.push_back(std::move(table));
  }
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(notes, part.notes);
  append(remarks, part.remarks);
  append(charts, part.charts);
}

OrderedJson Report::json() const {
  OrderedJson object = summary.json();
  for (const NamedTable& each : tables_)
    if ((each.places & kInJson) != 0) object[each.key] = each.table.json();
  return object;
}

const ResultTable* Report::main_table() const {
  const auto found = std::ranges::find_if(
      tables_, [](const NamedTable& each) { return (each.places & kInRows) != 0; });
  return found == tables_.end() ? nullptr : &found->table;
}

void Report::write(Format format, std::ostream& out, const Notice& notice) const {
  switch (format) {
    case Format::text:
    case Format::md: write_for_people(format, out); break;
    case Format::json:
    case Format::jsonl: write_json(format, out); break;
    case Format::html: out << page(); break;
    case Format::csv:
      if (const ResultTable* table = main_table())
        table->write(format, out);
      else
        summary.write_row(format, out);
      if (notice)
        for (const std::string& note : notes) notice("note: " + note);
  }
  flush_results(out);
}

void Report::write_json(Format format, std::ostream& out) const {
  if (is_one_table_) return main_table()->write(format, out);
  OrderedJson object = {{"schema", 1}};
  object.update(json());
  constexpr int kIndent = 2;
  out << json_text(object, format == Format::json ? kIndent : 0) << '\n';
}

void Report::write_for_people(Format format, std::ostream& out) const {
  const bool is_md = format == Format::md;
  mark_text(out);
  bool has_begun = false;
  const auto begin_part = [&] { out << (std::exchange(has_begun, true) ? "\n" : ""); };
  if (const auto pairs = summary.texts(); !pairs.empty()) {
    begin_part();
    std::vector<std::vector<std::string>> lines;
    for (const auto& [words, text] : pairs) {
      lines.push_back({words, text});
      if (is_md) out << "- " << words << ": " << text << '\n';
    }
    if (!is_md) write_columns(lines, {true, true}, out);
  }
  for (const NamedTable& each : tables_) {
    if ((each.places & kInText) == 0 || (each.table.size() == 0 && !is_one_table_)) continue;
    begin_part();
    if (!each.title.empty()) out << (is_md ? "## " : "") << each.title << (is_md ? "\n\n" : "\n");
    each.table.write(format, out);
  }
  if (!notes.empty() || !remarks.empty()) begin_part();
  const char* bullet = is_md ? "- " : "";
  for (const std::string& remark : remarks) out << bullet << printable(remark) << '\n';
  for (const std::string& note : notes) out << bullet << "note: " << printable(note) << '\n';
}

std::string Report::page() const {
  viz::ChartPage page(title_, line.empty() ? "Facts of the run" : line, summary.texts());
  if (figure) page.add_figure(figure->figure, figure->words);
  for (const std::string& note : notes) page.add_warning(note);
  for (const std::string& remark : remarks) page.add_paragraph(remark);
  if (!charts.empty()) page.add_charts(charts);
  for (const Gallery& gallery : galleries ? galleries() : std::vector<Gallery>()) {
    if (gallery.pictures.empty()) continue;
    page.add_heading(gallery.title);
    page.add_gallery(gallery.pictures);
  }
  for (const NamedTable& each : tables_) {
    if ((each.places & kOnPage) == 0 || each.table.size() == 0) continue;
    const bool is_folded = (each.places & kFolded) != 0;
    if (!each.title.empty() && !is_folded) page.add_heading(each.title);
    page.add_table(each.table.texts(), each.table.to_left(), each.table.strong(),
                   is_folded ? each.title : "");
  }
  return page.html();
}

void Report::save(const std::string& file, const std::string& option) const {
  OutputFile output(file, option);
  if (lower_extension(file) == ".svg") {
    output.stream() << viz::charts_svg(charts);
  } else {
    write(choose_format("", file, report_formats()), output.stream());
  }
  output.close();
}

}  // namespace hydrascope::app
