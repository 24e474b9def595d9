// Numbers over the steps of a run as lines. Free of LibTorch.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x ascending
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::vector<ChartLine> lines;
  bool logarithmic = false;  ///< the y axis; then values must be above 0
  /// Drawn as a dashed upright line with its name: where a stage begins.
  std::vector<std::pair<double, std::string>> marks = {};
};

/// An <svg> element; "" where no line has a point.
std::string line_chart_svg(const LineChart& chart);

/// With the five characters that mean something in HTML written as entities.
std::string escape_html(const std::string& text);

}  // namespace hydrascope::app
