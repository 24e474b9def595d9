#include "app/benchmark/chart.h"

#include "app/console.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

namespace hydrascope::app {
namespace {

// Okabe and Ito's colours, told apart with every kind of colour vision.
constexpr std::array<const char*, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                             "#e69f00", "#56b4e9", "#000000", "#7f7f7f"};

struct Series {
  std::string name;
  std::vector<const BenchmarkRow*> rows;  ///< by tokens
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

/// Lines named by what differs between them.
std::vector<Series> series_of(const std::vector<BenchmarkRow>& rows) {
  const auto several = [&](auto member) {
    return std::ranges::any_of(
        rows, [&](const BenchmarkRow& row) { return row.*member != rows.front().*member; });
  };
  const bool models = several(&BenchmarkRow::model);
  const bool batches = several(&BenchmarkRow::batch);
  const bool precisions = several(&BenchmarkRow::precision);
  const bool devices = several(&BenchmarkRow::device);
  const bool kernels = several(&BenchmarkRow::kernels);
  const bool stages = several(&BenchmarkRow::stage);
  const bool approximations = several(&BenchmarkRow::approximations);
  std::vector<Series> list;
  for (const BenchmarkRow& row : rows) {
    if (!row.error.empty()) continue;
    std::string name = row.attention;
    if (models) name += ", " + row.model;
    if (batches) name += ", batch " + std::to_string(row.batch);
    if (precisions) name += ", " + row.precision;
    if (devices) name += ", " + row.device;
    if (kernels) name += ", " + row.kernels;
    if (stages) name += ", " + row.stage;
    if (approximations && !row.approximations.empty()) name += ", " + row.approximations;
    auto found = std::ranges::find(list, name, &Series::name);
    if (found == list.end()) found = list.insert(list.end(), {name, {}});
    found->rows.push_back(&row);
  }
  for (Series& series : list) std::ranges::sort(series.rows, {}, &BenchmarkRow::tokens);
  return list;
}

/// A logarithmic axis from `low` to `high`, drawn from `begin` to `end`.
struct Axis {
  double low = 1, high = 10, begin = 0, end = 1;
  [[nodiscard]] double at(double value) const {
    return begin + (end - begin) * std::log(value / low) / std::log(high / low);
  }
};

Axis axis_over(std::vector<double> values, double begin, double end) {
  const auto [low, high] = std::ranges::minmax(values);
  return {low / 1.3, std::max(high, low * 1.01) * 1.3, begin, end};
}

/// 1, 2 and 5 of every decade inside the axis.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> list;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high;
       decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double value = step * decade;
      if (value >= axis.low && value <= axis.high) list.push_back(value);
    }
  }
  return list;
}

class Panel {
 public:
  Panel(std::ostringstream& out, double left, std::string title)
      : out_(out), left_(left), title_(std::move(title)) {}

  void draw(const std::vector<Series>& list, double (*value)(const BenchmarkRow&)) {
    std::vector<double> tokens;
    std::vector<double> values;
    for (const Series& series : list) {
      for (const BenchmarkRow* row : series.rows) {
        tokens.push_back(static_cast<double>(row->tokens));
        values.push_back(std::max(value(*row), 1e-6));
      }
    }
    const Axis x = axis_over(tokens, left_, left_ + kWidth);
    const Axis y = axis_over(values, kTop + kHeight, kTop);
    out_ << "<text x=\"" << left_ << "\" y=\"" << kTop - 14 << "\" font-weight=\"bold\">" << title_
         << "</text>\n<rect x=\"" << left_ << "\" y=\"" << kTop << "\" width=\"" << kWidth
         << "\" height=\"" << kHeight << "\" fill=\"none\" stroke=\"#999\"/>\n";
    for (const double tick : ticks(y)) {
      out_ << "<line x1=\"" << left_ << "\" x2=\"" << left_ + kWidth << "\" y1=\"" << y.at(tick)
           << "\" y2=\"" << y.at(tick) << "\" stroke=\"#ddd\"/><text x=\"" << left_ - 6 << "\" y=\""
           << y.at(tick) + 4 << "\" text-anchor=\"end\">" << tick << "</text>\n";
    }
    std::vector<std::int64_t> marked;
    for (const Series& series : list) {
      for (const BenchmarkRow* row : series.rows) {
        if (std::ranges::find(marked, row->tokens) != marked.end()) continue;
        marked.push_back(row->tokens);
        const double at = x.at(static_cast<double>(row->tokens));
        out_ << "<text x=\"" << at << "\" y=\"" << kTop + kHeight + 16
             << "\" text-anchor=\"middle\">" << row->img_size[0] << "x" << row->img_size[1]
             << "</text><text x=\"" << at << "\" y=\"" << kTop + kHeight + 30
             << "\" text-anchor=\"middle\" fill=\"#777\">" << row->tokens << "</text>\n";
      }
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const char* color = kColors[i % kColors.size()];
      out_ << "<polyline fill=\"none\" stroke=\"" << color << "\" stroke-width=\"2\" points=\"";
      for (const BenchmarkRow* row : list[i].rows) {
        out_ << x.at(static_cast<double>(row->tokens)) << ',' << y.at(std::max(value(*row), 1e-6))
             << ' ';
      }
      out_ << "\"/>\n";
      for (const BenchmarkRow* row : list[i].rows) {
        out_ << "<circle r=\"3.5\" fill=\"" << color << "\" cx=\""
             << x.at(static_cast<double>(row->tokens)) << "\" cy=\""
             << y.at(std::max(value(*row), 1e-6)) << "\"><title>" << escaped(list[i].name) << ": "
             << value(*row) << "</title></circle>\n";
      }
    }
  }

  static constexpr double kTop = 50;
  static constexpr double kWidth = 400;
  static constexpr double kHeight = 320;

 private:
  std::ostringstream& out_;
  double left_;
  std::string title_;
};

}  // namespace

std::string chart_svg(const BenchmarkResult& result) {
  const std::vector<Series> list = series_of(result.rows);
  constexpr double kLegendRow = 18;
  const double height =
      Panel::kTop + Panel::kHeight + 50 + kLegendRow * static_cast<double>(list.size());
  std::ostringstream out;
  out << std::setprecision(6)
      << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"" << height
      << "\" viewBox=\"0 0 1000 " << height
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
  if (!list.empty()) {
    Panel(out, 70, "images/s").draw(list, [](const BenchmarkRow& row) {
      return row.images_per_second;
    });
    Panel(out, 570, "peak memory, MB").draw(list, [](const BenchmarkRow& row) {
      return static_cast<double>(row.peak_memory_bytes) / 1e6;
    });
  }
  double y = Panel::kTop + Panel::kHeight + 56;
  for (std::size_t i = 0; i < list.size(); ++i, y += kLegendRow) {
    out << "<rect x=\"70\" y=\"" << y - 9 << "\" width=\"12\" height=\"12\" fill=\""
        << kColors[i % kColors.size()] << "\"/><text x=\"90\" y=\"" << y + 2 << "\">"
        << escaped(list[i].name) << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

void check_chart_file(const std::string& file) {
  if (!file.ends_with(".svg") && !file.ends_with(".html")) {
    throw Error(ErrorCode::invalid_argument, "expected a file ending in .svg or .html",
                "--plot " + file);
  }
  check_output_file(file, "--plot");
}

void write_chart(const BenchmarkResult& result, const std::string& file) {
  check_chart_file(file);
  OutputFile output(file, "--plot");
  if (file.ends_with(".svg")) {
    output.stream() << chart_svg(result);
  } else {
    output.stream() << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                       "<title>hydrascope benchmark</title><style>body{font-family:sans-serif;"
                       "margin:2em}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
                       "padding:2px 8px;text-align:right}</style></head><body>\n<ul>";
    for (const auto& [key, value] : result.header)
      output.stream() << "<li>" << escaped(key) << ": " << escaped(value) << "</li>";
    output.stream() << "</ul>\n" << chart_svg(result) << "<table><tr>";
    for (const char* name :
         {"attention", "size", "batch", "precision", "images/s", "ms p50", "peak MB", "% of peak"})
      output.stream() << "<th>" << name << "</th>";
    output.stream() << "</tr>\n" << std::setprecision(5);
    for (const BenchmarkRow& row : result.rows) {
      output.stream() << "<tr><td>" << escaped(row.attention) << "</td><td>" << row.img_size[0]
                      << "x" << row.img_size[1] << "</td><td>" << row.batch << "</td><td>"
                      << row.precision << "</td><td>" << row.images_per_second << "</td><td>"
                      << row.ms_p50 << "</td><td>" << row.peak_memory_bytes / 1'000'000
                      << "</td><td>" << row.pct_of_peak << "</td></tr>\n";
    }
    output.stream() << "</table></body></html>\n";
  }
  output.close();
}

}  // namespace hydrascope::app
