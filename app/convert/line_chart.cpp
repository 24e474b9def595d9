#include "app/convert/line_chart.h"

#include "viz/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

namespace hydrascope::app {
namespace {

// Okabe and Ito's colours, told apart with every kind of colour vision.
constexpr std::array<const char*, 6> kColors{"#0072b2", "#d55e00", "#009e73",
                                             "#cc79a7", "#e69f00", "#56b4e9"};
constexpr double kWidth = 640;
constexpr double kHeight = 260;
constexpr double kLeft = 64;
constexpr double kTop = 40;
constexpr double kRight = 16;
constexpr double kBottom = 56;
constexpr int kMostTicks = 7;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// From values to coordinates of the drawing.
struct Axis {
  Range range;
  double begin = 0;
  double end = 1;
  bool logarithmic = false;

  [[nodiscard]] double place(double value) const {
    if (range.high == range.low) return (begin + end) / 2;
    const double share = logarithmic
                             ? std::log(value / range.low) / std::log(range.high / range.low)
                             : (value - range.low) / (range.high - range.low);
    return begin + (end - begin) * share;
  }

  /// Places and texts of its marks.
  [[nodiscard]] std::vector<std::pair<double, std::string>> marks() const {
    std::vector<std::pair<double, std::string>> list;
    if (logarithmic) {
      for (double decade = std::pow(10, std::floor(std::log10(range.low))); decade <= range.high;
           decade *= 10) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double value = factor * decade;
          if (value < range.low || value > range.high) continue;
          std::ostringstream text;
          text << value;
          list.emplace_back(value, text.str());
        }
      }
      return list;
    }
    const viz::Ticks ticks =
        viz::ticks_of({static_cast<float>(range.low), static_cast<float>(range.high)}, kMostTicks);
    for (const viz::Tick& tick : ticks.ticks)
      list.emplace_back(tick.value, tick.text + ticks.factor());
    return list;
  }
};

}  // namespace

std::string escape_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string line_chart_svg(const LineChart& chart) {
  Axis x{{}, kLeft, kLeft + kWidth};
  Axis y{{}, kTop + kHeight, kTop, chart.logarithmic};
  const auto shown = [&](double value) {
    return std::isfinite(value) && (!chart.logarithmic || value > 0);
  };
  for (const ChartLine& line : chart.lines) {
    for (const auto& [at, value] : line.points) {
      if (!shown(value)) continue;
      x.range.include(at);
      y.range.include(value);
    }
  }
  if (x.range.low > x.range.high) return "";
  std::ostringstream out;
  out.precision(6);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kLeft + kWidth + kRight
      << ' ' << kTop + kHeight + kBottom << "\" font-family=\"sans-serif\" font-size=\"12\" "
      << "role=\"img\" aria-label=\"" << escape_html(chart.title) << "\">\n<text x=\"" << kLeft
      << "\" y=\"18\" font-weight=\"bold\">" << escape_html(chart.title) << "</text>\n";
  for (const auto& [value, text] : y.marks()) {
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + kWidth << "\" y1=\"" << y.place(value)
        << "\" y2=\"" << y.place(value) << "\" stroke=\"#ddd\"/><text x=\"" << kLeft - 6
        << "\" y=\"" << y.place(value) + 4 << "\" text-anchor=\"end\">" << text << "</text>\n";
  }
  for (const auto& [value, text] : x.marks()) {
    out << "<text x=\"" << x.place(value) << "\" y=\"" << kTop + kHeight + 18
        << "\" text-anchor=\"middle\">" << text << "</text>\n";
  }
  for (const auto& [at, name] : chart.marks) {
    if (at < x.range.low || at > x.range.high) continue;
    out << "<line x1=\"" << x.place(at) << "\" x2=\"" << x.place(at) << "\" y1=\"" << kTop
        << "\" y2=\"" << kTop + kHeight << "\" stroke=\"#888\" stroke-dasharray=\"4 3\"/><text x=\""
        << x.place(at) + 4 << "\" y=\"" << kTop + 12 << "\" fill=\"#555\">" << escape_html(name)
        << "</text>\n";
  }
  out << "<rect x=\"" << kLeft << "\" y=\"" << kTop << "\" width=\"" << kWidth << "\" height=\""
      << kHeight << "\" fill=\"none\" stroke=\"#999\"/>\n";
  double legend = kLeft;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const char* color = kColors[i % kColors.size()];
    out << "<polyline fill=\"none\" stroke=\"" << color << "\" stroke-width=\"1.5\" points=\"";
    for (const auto& [at, value] : line.points)
      if (shown(value)) out << x.place(at) << ',' << y.place(value) << ' ';
    out << "\"/>\n<rect x=\"" << legend << "\" y=\"" << kTop + kHeight + 34
        << "\" width=\"10\" height=\"10\" fill=\"" << color << "\"/><text x=\"" << legend + 14
        << "\" y=\"" << kTop + kHeight + 43 << "\">" << escape_html(line.name) << "</text>\n";
    constexpr double kCharacter = 7;
    legend += 34 + kCharacter * static_cast<double>(line.name.size());
  }
  out << "<text x=\"" << kLeft + kWidth << "\" y=\"" << kTop + kHeight + 43
      << "\" text-anchor=\"end\">" << escape_html(chart.x_label) << "</text>\n</svg>\n";
  return out.str();
}

}  // namespace hydrascope::app
