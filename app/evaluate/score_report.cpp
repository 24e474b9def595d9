#include "app/evaluate/score_report.h"

#include "app/run/output_file.h"

#include <cmath>
#include <cstdint>
#include <utility>

namespace hydrascope::app {
namespace {

/// The standard error of a share of so many pictures, per cent.
double standard_error(double percent, std::int64_t images) {
  constexpr double kAll = 100;
  return std::sqrt(percent * (kAll - percent) / static_cast<double>(images));
}

viz::LineChart calibration_chart(const CalibrationScore& calibration,
                                 const ResultTable& reliability) {
  viz::LineChart chart{"Calibration", "mean probability of the predicted class",
                       "share that is right", lines_of(reliability, "confidence", "accuracy")};
  chart.lines.push_back({"perfect", {{0, 0}, {1, 1}}, false});
  double too_sure = 0;
  for (const OrderedJson& bin : reliability.json()) {
    const auto images = bin.at("images").get<std::int64_t>();
    chart.lines.front().notes.push_back(std::to_string(images));
    if (images > 0)
      too_sure += static_cast<double>(images) *
                  (bin.at("confidence").get<double>() - bin.at("accuracy").get<double>());
  }
  chart.caption =
      std::string("The model is ") + (too_sure > 0 ? "surer than it is" : "less sure than it is") +
      " right: the expected calibration error is " + fixed(calibration.expected_error(), 3) +
      ". Each point is a bin of pictures with its number of pictures. On the grey line the "
      "probability is the share that is right.";
  return chart;
}

}  // namespace

void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      Report& report) {
  constexpr std::size_t kRows = 20;   // of a page
  constexpr std::int64_t kLeast = 5;  // pictures of a class: of fewer the share says little
  const ConfusionCounts& confusions = scores.confusions();
  if (scores.images() > 0)
    report.figure = {
        fixed(scores.top1(), 1) + " % \u00b1 " +
            fixed(standard_error(scores.top1(), scores.images()), 1),
        "top-1 of " + std::to_string(scores.images()) + " pictures, with its standard error"};
  if (const std::string& file = wanted.per_class; file == "-")
    report.add_table("per_class", "by class", confusions.classes(labels), kMain);
  else if (!file.empty())
    Report::of("by class", confusions.classes(labels)).save(file, "`per_class`");
  if (wanted.confusions > 0) {
    report.add_table("confusions", "most frequent confusions",
                     confusions.pairs(wanted.confusions, labels), kInJson | kInText | kInRows);
  }
  report.add_table("", "Classes of the lowest top-1", confusions.classes(labels, kRows, kLeast),
                   kOnPage);
  report.add_table("", "Most frequent confusions", confusions.pairs(kRows, labels), kOnPage);
  ResultTable reliability = scores.calibration().reliability();
  report.charts.push_back(calibration_chart(scores.calibration(), reliability));
  report.add_table("reliability", "Calibration by the predicted class's probability",
                   std::move(reliability), kInJson | kOnPage);
}

}  // namespace hydrascope::app
