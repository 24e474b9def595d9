// Lines over a pair of axes, or bars, as SVG for a page.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {

struct ChartLine {
  std::string name;                               ///< any bytes
  std::vector<std::pair<double, double>> points;  ///< x ascending; one that is not finite is a gap
  bool in_front = true;  ///< coloured and named beside its end; else thin and grey, for company
  std::vector<std::string> notes = {};  ///< beside the points, as many as there are points; or none
};

struct LineChart {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<ChartLine> lines;
  bool logarithmic = false;  ///< both axes; what is not positive is a gap
  /// Every line is one point, whose y is drawn as a bar from 0, the longest first, with the line's name
  /// above it and the point's note behind it. There are no axes, and `height` follows from the lines.
  bool bars = false;
  /// Labels of the x axis, in place of numbers: "224x224" at 197.
  std::vector<std::pair<double, std::string>> x_marks = {};
  std::string caption = {};  ///< a sentence for the page it stands on
  int width = 440;           ///< pixels of the whole
  int height = 280;
};

/// An <svg> element without fonts, scripts and styles of its own; text has the colour of its
/// surroundings. Lines and points say their name and value when pointed at.
std::string line_chart_svg(const LineChart& chart);

/// The charts side by side on white, as a file of its own.
std::string charts_svg(std::span<const LineChart> charts);

}  // namespace hydrascope::viz
