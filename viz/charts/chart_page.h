// Pages of charts and tables, for results that are looked at once: nothing in them moves, and they
// need no other file.
#pragma once

#include "viz/charts/line_chart.h"
#include "viz/picture/canvas.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::viz {

struct GalleryPicture {
  std::string name;
  Canvas picture;
  std::vector<std::string> caption;  ///< a line each
};

/// Without its folders.
std::string short_name(const GalleryPicture& picture);

/// Parts stand in the order in which they are added. All texts may be any bytes.
class ChartPage {
 public:
  /// `title` is the window's and the page's; `line` stands for the `facts` until it is opened.
  ChartPage(std::string_view title, std::string_view line,
            std::vector<std::pair<std::string, std::string>> facts = {})
      : title_(title), line_(line), facts_(std::move(facts)) {}

  /// The main figure of the page, large, and its meaning.
  void add_figure(std::string_view figure, std::string_view words);
  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  void add_warning(std::string_view text);
  /// Side by side as far as the window is wide.
  void add_charts(std::span<const LineChart> charts);
  /// `rows` begin with the titles. Columns of `to_left` and the first are flush left, others right;
  /// rows of `strong` are bold. With `fold` the table is behind these words.
  void add_table(std::span<const std::vector<std::string>> rows,
                 const std::vector<bool>& to_left = {}, const std::vector<bool>& strong = {},
                 std::string_view fold = {});

  /// Shrunk pictures, side by side, with the names of their files.
  void add_gallery(std::span<const GalleryPicture> pictures);

  [[nodiscard]] std::string html() const;

 private:
  void add_element(std::string_view tag, std::string_view text);
  void add_picture(const Canvas& picture, std::string_view name,
                   std::span<const std::string> lines);

  std::string title_;
  std::string line_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::string body_;
  std::string heading_;  ///< the last one
};

}  // namespace hydrascope::viz
