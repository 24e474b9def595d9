#include "app/evaluate/score_report.h"

#include "app/run/output_file.h"

#include <utility>

namespace hydrascope::app {
namespace {

viz::LineChart calibration_chart(const ResultTable& reliability) {
  viz::LineChart chart{"Calibration", "mean probability of the predicted class",
                       "share that is right", lines_of(reliability, "confidence", "accuracy")};
  chart.lines.push_back({"perfect", {{0, 0}, {1, 1}}, false});
  chart.caption =
      "A point is a bin of pictures by the predicted class's probability. Below the grey line the "
      "model is surer than it is right.";
  return chart;
}

}  // namespace

void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      Report& report) {
  constexpr std::size_t kRows = 20;  // of a page
  const ConfusionCounts& confusions = scores.confusions();
  if (const std::string& file = wanted.per_class; file == "-")
    report.add_table("per_class", "by class", confusions.classes(labels), kMain);
  else if (!file.empty())
    Report::of("by class", confusions.classes(labels)).save(file, "`per_class`");
  if (wanted.confusions > 0) {
    report.add_table("confusions", "most frequent confusions",
                     confusions.pairs(wanted.confusions, labels), kInJson | kInText | kInRows);
  }
  report.add_table("", "Classes of the lowest top-1", confusions.classes(labels, kRows), kOnPage);
  report.add_table("", "Most frequent confusions", confusions.pairs(kRows, labels), kOnPage);
  ResultTable reliability = scores.calibration().reliability();
  report.charts.push_back(calibration_chart(reliability));
  report.add_table("reliability", "Calibration by the predicted class's probability",
                   std::move(reliability), kInJson | kOnPage);
}

}  // namespace hydrascope::app
