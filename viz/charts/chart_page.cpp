#include "viz/charts/chart_page.h"

#include "viz/page/markup.h"
#include "viz/page/page_picture.h"
#include "viz/page/shell.h"

#include <cstddef>

namespace hydrascope::viz {

std::string short_name(const GalleryPicture& picture) {
  return picture.name.substr(picture.name.rfind('/') + 1);
}

void ChartPage::add_element(std::string_view tag, std::string_view text) {
  const std::string name(tag);
  body_ += "<" + name + ">" + page::escaped(text) + "</" + name + ">\n";
}

void ChartPage::add_figure(std::string_view figure, std::string_view words) {
  body_ += "<p class=\"figure\"><strong>" + page::escaped(figure) + "</strong><span>" +
           page::escaped(words) + "</span></p>\n";
}

void ChartPage::add_heading(std::string_view text) {
  heading_ = text;
  add_element("h2", text);
}

void ChartPage::add_paragraph(std::string_view text) { add_element("p", text); }

void ChartPage::add_warning(std::string_view text) {
  body_ += "<p><strong>" + page::escaped(text) + "</strong></p>\n";
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
                          const std::vector<bool>& to_left, const std::vector<bool>& strong,
                          std::string_view fold) {
  if (!fold.empty()) body_ += "<details><summary>" + page::escaped(fold) + "</summary>\n";
  // It takes the focus, because the keyboard scrolls it where it is wider than the window.
  const std::string name = !fold.empty()      ? std::string(fold)
                           : heading_.empty() ? "Table"
                                              : heading_;
  body_ += "<div class=\"table\" tabindex=\"0\" role=\"group\" aria-label=\"" +
           page::escaped(name) + "\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string tag = i == 0 ? "th" : "td";
    body_ += i == 0 ? "<thead>" : "";
    body_ += i < strong.size() && strong[i] ? "<tr class=\"strong\">" : "<tr>";
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      const char* kind = j < to_left.size() && to_left[j] ? " class=\"words\"" : "";
      body_ += "<" + tag + kind + ">" + page::escaped(rows[i][j]) + "</" + tag + ">";
    }
    body_ += i == 0 ? "</tr></thead>\n" : "</tr>\n";
  }
  body_ += fold.empty() ? "</table></div>\n" : "</table></div></details>\n";
}

void ChartPage::add_picture(const Canvas& picture, std::string_view name,
                            std::span<const std::string> lines) {
  constexpr int kEdge = 320;
  constexpr int kQuality = 80;
  constexpr std::size_t kMostBytes = 20'000;
  const page::PagePicture shown = page::page_picture(picture, kEdge, kQuality, kMostBytes);
  body_ += "<figure><img src=\"" + page::data_url(shown) + "\" width=\"" +
           std::to_string(shown.width) + "\" height=\"" + std::to_string(shown.height) +
           "\" alt=\"" + page::escaped(name) + "\" title=\"" + page::escaped(name) +
           "\" decoding=\"async\"/><figcaption>";
  for (const std::string& line : lines) add_element("p", line);
  body_ += "</figcaption></figure>\n";
}

void ChartPage::add_gallery(std::span<const GalleryPicture> pictures) {
  body_ += "<div class=\"gallery\">\n";
  for (const GalleryPicture& each : pictures) {
    std::vector<std::string> lines{short_name(each)};
    lines.insert(lines.end(), each.caption.begin(), each.caption.end());
    add_picture(each.picture, each.name, lines);
  }
  body_ += "</div>\n";
}

std::string ChartPage::html() const {
  const auto [begin, end] = page::begin_and_end({.title = title_, .line = line_, .facts = facts_});
  return begin + "<main id=\"main\" class=\"charts-page\" tabindex=\"-1\">\n" + body_ +
         "</main>\n" + end;
}

}  // namespace hydrascope::viz
