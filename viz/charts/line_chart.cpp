#include "viz/charts/line_chart.h"

#include "viz/page/markup.h"
#include "viz/scale/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace hydrascope::viz {
namespace {

// Okabe and Ito's colours, told apart with every kind of colour vision.
constexpr std::array<std::string_view, 7> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#7f7f7f"};
constexpr std::string_view kCompanyColor = "#999";
constexpr double kLeft = 70;
constexpr double kRight = 14;
constexpr double kTop = 34;
constexpr double kBottom = 42;
constexpr double kLabelRow = 14;
constexpr double kLetter = 7.4;  ///< as wide as most letters of 12 pixels

/// The first `letters` bytes of a name, with an ellipsis where it has more.
std::string shortened(std::string_view name, std::size_t letters) {
  const std::string text = page::valid_text(name);
  if (text.size() <= letters) return text;
  std::size_t end = letters > 0 ? letters - 1 : 0;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "\u2026";
}

std::size_t letters_in(double pixels) {
  return static_cast<std::size_t>(std::max(0.0, std::round(pixels / kLetter)));
}

/// The range of a coordinate, a little wider than what lies in it.
class Extent {
 public:
  void add(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  [[nodiscard]] ValueRange range() const {
    if (low_ > high_) return {0, 1};
    constexpr double kMargin = 0.04;
    const double size = std::max(std::abs(low_), std::abs(high_));
    // Values that differ by rounding alone are one value.
    const double margin =
        kMargin * (high_ - low_ > 1e-5 * size ? high_ - low_ : std::max(size, 0.1));
    return {static_cast<float>(low_ - margin), static_cast<float>(high_ + margin)};
  }

 private:
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

/// A range drawn from `begin` to `end`; of a logarithmic one the range is that of the logarithms.
struct ChartAxis {
  ValueRange range;
  double begin;
  double end;
  bool logarithmic;
  [[nodiscard]] double at(double value) const {
    const double place = logarithmic ? std::log10(value) : value;
    return begin + (end - begin) * (place - range.low) / (double{range.high} - range.low);
  }
  [[nodiscard]] Ticks ticks(int most) const {
    if (!logarithmic) return ticks_of(range, most);
    Ticks decades = decade_ticks(range);
    // Within less than a decade there may be none, and a number alone says nothing of its axis.
    if (decades.ticks.size() >= 2) return decades;
    return ticks_of({std::pow(10.0F, range.low), std::pow(10.0F, range.high)}, most);
  }
};

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart), height_(height_of(chart)) {
    out_ << std::fixed << std::setprecision(1);
    if (chart.bars) return;
    Extent x;
    Extent y;
    for (const ChartLine& line : chart.lines) {
      if (line.in_front) ++named_;
      for (const auto& point : line.points) {
        if (is_on_axis(point.first)) x.add(place_of(point.first));
        if (is_drawn(point)) y.add(place_of(point.second));
      }
    }
    if (named_ == 1) named_ = 0;  // the title says it
    for (const ChartLine& line : chart.lines)
      if (named_ > 0 && line.in_front)
        right_ = std::max(right_, kSwatch + kLetter * static_cast<double>(line.name.size()));
    constexpr double kMostOfTheWidth = 0.42;
    right_ = std::min(right_, kMostOfTheWidth * chart.width);
    x_ = {x.range(), kLeft, chart.width - right_, chart.logarithmic};
    y_ = {y.range(), chart.height - kBottom, kTop, chart.logarithmic};
  }

  static int height_of(const LineChart& chart) {
    if (!chart.bars) return chart.height;
    return static_cast<int>(kTop + kBarRow * static_cast<double>(chart.lines.size()));
  }

  std::string svg() {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" << chart_.width
         << "\" height=\"" << height_ << "\" viewBox=\"0 0 " << chart_.width << ' ' << height_
         << "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n<title>"
         << page::escaped(chart_.title) << "</title>\n<text x=\"" << (chart_.bars ? kRight : kLeft)
         << "\" y=\"16\" font-weight=\"bold\">" << page::escaped(chart_.title) << "</text>\n";
    if (chart_.bars) {
      draw_bars();
      out_ << "</svg>\n";
      return out_.str();
    }
    draw_axes();
    for (const ChartLine& line : chart_.lines)
      if (!line.in_front) draw(line, kCompanyColor, 1, /*dots=*/false);
    std::size_t next = 0;
    for (const ChartLine& line : chart_.lines) {
      if (!line.in_front) continue;
      const std::string_view color = kColors[next++ % kColors.size()];
      draw(line, color, 2, /*dots=*/line.points.size() <= kMostDots);
      if (named_ > 0) add_label(line, color);
    }
    draw_labels();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  static constexpr std::size_t kMostDots = 64;

  [[nodiscard]] bool is_on_axis(double value) const {
    return std::isfinite(value) && (value > 0 || !chart_.logarithmic);
  }
  [[nodiscard]] bool is_drawn(const std::pair<double, double>& point) const {
    return is_on_axis(point.first) && is_on_axis(point.second);
  }
  [[nodiscard]] double place_of(double value) const {
    return chart_.logarithmic ? std::log10(value) : value;
  }

  void text(double x, double y, std::string_view anchor, std::string_view words) {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">"
         << page::escaped(words) << "</text>\n";
  }

  void draw_bars() {
    struct Bar {
      const ChartLine* line;
      double value;
    };
    std::vector<Bar> bars;
    for (const ChartLine& line : chart_.lines) {
      const double value = line.points.empty() ? 0 : line.points.front().second;
      bars.push_back({&line, std::isfinite(value) ? std::max(value, 0.0) : 0});
    }
    std::ranges::stable_sort(bars, std::greater{}, &Bar::value);
    const double longest = bars.empty() ? 1 : std::max(bars.front().value, 1e-300);
    const double room = chart_.width - 2 * kRight;
    // A bar and its note share the row, whatever the notes say.
    constexpr double kMostOfRoom = 0.6;
    constexpr double kLeastOfRoom = 0.2;
    constexpr double kGap = 6;
    double of_bars = kMostOfRoom * room;
    for (const auto& [line, value] : bars) {
      if (line->notes.empty() || value <= 0) continue;
      const double note = kGap + kLetter * static_cast<double>(line->notes.front().size());
      of_bars = std::min(of_bars, (room - note) * longest / value);
    }
    of_bars = std::max(of_bars, kLeastOfRoom * room);
    double y = kTop;
    for (const auto& [line, value] : bars) {
      text(kRight, y + 10, "start", shortened(line->name, letters_in(room)));
      const double width = of_bars * value / longest;
      out_ << "<rect x=\"" << kRight << "\" y=\"" << y + 15 << "\" width=\"" << width
           << "\" height=\"12\" fill=\"" << kColors.front() << "\"/>\n";
      if (!line->notes.empty()) text(kRight + width + kGap, y + 25, "start", line->notes.front());
      y += kBarRow;
    }
  }

  void draw_axes() {
    const double middle = (x_.begin + x_.end) / 2;
    Ticks along = x_.ticks(8);
    if (!chart_.x_marks.empty()) {
      along = {};
      for (const auto& [value, text] : chart_.x_marks) along.ticks.push_back({value, text});
    }
    double free = 0;  // of labels, from there on
    for (const Tick& tick : along.ticks) {
      const double x = x_.at(tick.value);
      out_ << "<line x1=\"" << x << "\" x2=\"" << x << "\" y1=\"" << y_.begin << "\" y2=\""
           << y_.begin + 4 << "\" stroke=\"#999\"/>";
      const double half = kLetter * static_cast<double>(tick.text.size()) / 2;
      if (x - half < free) continue;
      text(x, y_.begin + 16, "middle", tick.text);
      free = x + half;
    }
    const Ticks up = y_.ticks(6);
    for (const Tick& tick : up.ticks) {
      const double y = y_.at(tick.value);
      out_ << "<line x1=\"" << x_.begin << "\" x2=\"" << x_.end << "\" y1=\"" << y << "\" y2=\""
           << y << "\" stroke=\"#999\" stroke-opacity=\"0.3\"/>";
      text(x_.begin - 6, y + 4, "end", tick.text);
    }
    const std::string x_factor = along.factor().empty() ? "" : " (" + along.factor() + ")";
    const std::string y_factor = up.factor().empty() ? "" : " (" + up.factor() + ")";
    const std::string scale = chart_.logarithmic ? "logarithmic" : "";
    const auto with_scale = [&](const std::string& title) {
      return title + (title.empty() || scale.empty() ? "" : ", ") + scale;
    };
    text(middle, y_.begin + 33, "middle", with_scale(chart_.x_title) + x_factor);
    const double y = (y_.begin + y_.end) / 2;
    out_ << "<text x=\"14\" y=\"" << y << "\" text-anchor=\"middle\" transform=\"rotate(-90 14 "
         << y << ")\">" << page::escaped(with_scale(chart_.y_title) + y_factor)
         << "</text>\n<rect x=\"" << x_.begin << "\" y=\"" << y_.end << "\" width=\""
         << x_.end - x_.begin << "\" height=\"" << y_.begin - y_.end
         << "\" fill=\"none\" stroke=\"#999\"/>\n";
  }

  void draw(const ChartLine& line, std::string_view color, int width, bool dots) {
    out_ << "<g stroke=\"" << color << "\" fill=\"none\" stroke-width=\"" << width << "\"><title>"
         << page::escaped(line.name) << "</title><path d=\"";
    bool is_open = false;
    for (const auto& point : line.points) {
      if (is_drawn(point)) {
        out_ << (is_open ? 'L' : 'M') << x_.at(point.first) << ' ' << y_.at(point.second);
      }
      is_open = is_drawn(point);
    }
    out_ << "\"/>";
    for (std::size_t i = 0; i < line.points.size(); ++i) {
      const auto& point = line.points[i];
      if (!dots || !is_drawn(point)) continue;
      out_ << "<circle r=\"3\" fill=\"" << color << "\" cx=\"" << x_.at(point.first) << "\" cy=\""
           << y_.at(point.second) << "\"><title>" << page::escaped(line.name) << ": "
           << std::defaultfloat << std::setprecision(6) << point.second << std::fixed
           << std::setprecision(1) << "</title></circle>";
    }
    out_ << "</g>\n";
    for (std::size_t i = 0; i < std::min(line.notes.size(), line.points.size()); ++i)
      if (is_drawn(line.points[i]))
        text(x_.at(line.points[i].first), y_.at(line.points[i].second) - 8, "middle",
             line.notes[i]);
  }

  /// The name of a line stands where the line ends.
  void add_label(const ChartLine& line, std::string_view color) {
    const auto end = std::find_if(line.points.rbegin(), line.points.rend(),
                                  [&](const auto& point) { return is_drawn(point); });
    if (end != line.points.rend()) labels_.push_back({y_.at(end->second), color, line.name});
  }

  /// Names that would lie upon each other are moved apart.
  void draw_labels() {
    std::ranges::sort(labels_, {}, &Label::y);
    const double room =
        (y_.begin - y_.end) / std::max<double>(1, static_cast<double>(labels_.size()) - 1);
    const double row = std::min(kLabelRow, room);
    for (std::size_t i = 1; i < labels_.size(); ++i)
      labels_[i].y = std::max(labels_[i].y, labels_[i - 1].y + row);
    double lowest = y_.begin;
    for (std::size_t i = labels_.size(); i-- > 0; lowest -= row)
      labels_[i].y = std::min(labels_[i].y, lowest);
    for (const Label& label : labels_) {
      out_ << "<rect x=\"" << x_.end + 5 << "\" y=\"" << label.y - 2
           << "\" width=\"10\" height=\"4\" fill=\"" << label.color << "\"/>";
      text(x_.end + kSwatch, label.y + 4, "start",
           shortened(label.name, letters_in(right_ - kSwatch)));
    }
  }

  struct Label {
    double y;
    std::string_view color;
    std::string name;
  };
  static constexpr double kSwatch = 19;
  static constexpr double kBarRow = 36;

  const LineChart& chart_;
  int height_;
  int named_ = 0;
  double right_ = kRight;
  std::vector<Label> labels_;
  ChartAxis x_{};
  ChartAxis y_{};
  std::ostringstream out_;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) { return Drawing(chart).svg(); }

std::string charts_svg(std::span<const LineChart> charts) {
  std::ostringstream parts;
  int width = 0;
  int height = 0;
  for (const LineChart& chart : charts) {
    parts << "<g transform=\"translate(" << width << " 0)\">\n"
          << line_chart_svg(chart) << "</g>\n";
    width += chart.width;
    height = std::max(height, Drawing::height_of(chart));
  }
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\">\n<desc>hydrascope</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << parts.str() << "</svg>\n";
  return out.str();
}

}  // namespace hydrascope::viz
