#include "app/evaluate/evaluation_page.h"

#include "app/run/output_file.h"

#include <vector>

namespace hydrascope::app {
namespace {

viz::LineChart calibration_chart(const CalibrationScore& calibration) {
  viz::ChartLine bins{"accuracy", {}};
  for (const OrderedJson& bin : calibration.reliability().json()) {
    if (bin.at("images") == 0) continue;
    bins.points.emplace_back(bin.at("confidence").get<double>(), bin.at("accuracy").get<double>());
  }
  viz::LineChart chart{"Calibration",
                       "mean probability of the predicted class",
                       "share that is right",
                       {std::move(bins), {"perfect", {{0, 0}, {1, 1}}, false}}};
  chart.caption =
      "A point is a bin of pictures by the predicted class's probability. Below the grey line the "
      "model is surer than it is right.";
  return chart;
}

}  // namespace

void write_evaluation_page(const std::string& file, const Summary& summary, const Scores& scores,
                           const image::Labels& labels,
                           std::span<const viz::GalleryPicture> errors) {
  constexpr std::size_t kRows = 20;
  constexpr std::string_view kTitle = "hydrascope evaluate";
  viz::ChartPage page(kTitle, kTitle, summary.texts());
  page.add_charts(std::vector{calibration_chart(scores.calibration())});
  const auto add_table = [&](std::string_view heading, const ResultTable& table) {
    if (table.size() == 0) return;
    page.add_heading(heading);
    page.add_table(table.texts(), table.to_left());
  };
  if (!errors.empty()) {
    page.add_heading("Surest errors");
    page.add_gallery(errors);
  }
  add_table("Classes of the lowest top-1", scores.confusions().classes(labels, kRows));
  add_table("Most frequent confusions", scores.confusions().pairs(kRows, labels));
  add_table("Calibration by the predicted class's probability", scores.calibration().reliability());
  OutputFile output(file, "--html");
  output.stream() << page.html();
  output.close();
}

}  // namespace hydrascope::app
