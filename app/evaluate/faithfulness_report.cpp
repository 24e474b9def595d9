#include "app/evaluate/faithfulness_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr int kDecimals = 4;  // for people

std::string number_or_dash(double value) {
  return std::isfinite(value) ? fixed(value, kDecimals) : "-";
}

std::string percent(double share) {
  return std::isfinite(share) ? fixed(100 * share, 0) + " %" : "-";
}

std::string with_sign(double value) { return (value >= 0 ? "+" : "") + number_or_dash(value); }

std::string with_margin(const MeanOverPictures& mean, std::string text) {
  return std::move(text) + " ± " + number_or_dash(mean.margin);
}

bool is_baseline(const FaithfulnessRow& row) {
  return row.map == kRandomMap || row.map == kCenterMap;
}

/// Two-sided, 95 %: Student's t of so many degrees of freedom, 1.96 from 120 on (within 1 %).
double student_quantile(std::size_t degrees) {
  static constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                     2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                     2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                     2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  constexpr std::size_t kMany = 120;
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  constexpr double kNormal = 1.960;
  // Between the table's end and the normal distribution it falls as 1 / degrees.
  constexpr double kSlope = 2.46;
  return degrees < kMany ? kNormal + kSlope / static_cast<double>(degrees) : kNormal;
}

}  // namespace

MeanOverPictures mean_over(const std::vector<double>& values) {
  MeanOverPictures result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.stddev = std::sqrt(squares / (count - 1));
  result.standard_error = result.stddev / std::sqrt(count);
  result.margin = student_quantile(values.size() - 1) * result.standard_error;
  return result;
}

PairedComparison compare(const FaithfulnessRow& first, const FaithfulnessRow& second,
                         bool lower_is_better) {
  const std::size_t count = std::min(first.areas.size(), second.areas.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < count; ++i) differences.push_back(first.areas[i] - second.areas[i]);
  const auto wins = std::ranges::count_if(
      differences, [&](double value) { return lower_is_better ? value < 0 : value > 0; });
  PairedComparison result;
  result.difference = mean_over(differences);
  if (count > 0) result.wins = static_cast<double>(wins) / static_cast<double>(count);
  return result;
}

const FaithfulnessRow* FaithfulnessReport::find_or_null(std::string_view map,
                                                        std::string_view measure) const {
  const auto found = std::ranges::find_if(
      rows, [&](const FaithfulnessRow& row) { return row.map == map && row.measure == measure; });
  return found == rows.end() ? nullptr : &*found;
}

const FaithfulnessMeasure& FaithfulnessReport::measure_of(const FaithfulnessRow& row) const {
  return *std::ranges::find(measures, row.measure, &FaithfulnessMeasure::name);
}

std::optional<PairedComparison> FaithfulnessReport::against(const FaithfulnessRow& row,
                                                            std::string_view baseline) const {
  const FaithfulnessRow* other = find_or_null(baseline, row.measure);
  if (other == nullptr || other == &row) return std::nullopt;
  return compare(row, *other, measure_of(row).lower_is_better);
}

std::vector<std::string> FaithfulnessReport::all_notes() const {
  std::vector<std::string> list = notes;
  if (images < 2) return list;  // one picture tells nothing of others
  for (const FaithfulnessRow& row : rows) {
    if (is_baseline(row)) continue;
    const auto comparison = against(row, kCenterMap);
    if (!comparison) continue;
    const MeanOverPictures& difference = comparison->difference;
    const bool loses = measure_of(row).lower_is_better ? difference.mean > 0 : difference.mean < 0;
    const bool is_clear = std::abs(difference.mean) > difference.margin;
    if (!loses && is_clear) continue;
    list.push_back(row.map +
                   (loses ? " loses to the centre by " : " does not clearly beat the centre by ") +
                   row.measure + " (" + with_margin(difference, with_sign(difference.mean)) + ")");
  }
  return list;
}

OrderedJson FaithfulnessReport::json_of(const FaithfulnessRow& row) const {
  const FaithfulnessMeasure& measure = measure_of(row);
  const MeanOverPictures area = mean_over(row.areas);
  OrderedJson object = {{"map", row.map},
                        {"measure", row.measure},
                        {"lower_is_better", measure.lower_is_better},
                        {"images", row.areas.size()},
                        {"auc", area.mean},
                        {"stddev", area.stddev},
                        {"standard_error", area.standard_error},
                        {"margin95", area.margin}};
  for (const std::string_view baseline : {kRandomMap, kCenterMap}) {
    const auto comparison = against(row, baseline);
    const auto add = [&](const std::string& key, double value) {
      object[key] = comparison ? OrderedJson(value) : OrderedJson();
    };
    const PairedComparison& by = comparison ? *comparison : PairedComparison();
    const std::string name(baseline);
    add("vs_" + name, by.difference.mean);
    add("vs_" + name + "_margin95", by.difference.margin);
    add("beats_" + name, by.wins);
  }
  object["seconds"] = row.seconds;
  return object;
}

ResultTable FaithfulnessReport::table_of(const OrderedJson& run) const {
  std::vector<TableColumn> columns;
  std::vector<std::vector<OrderedJson>> lines;
  for (const FaithfulnessRow& row : rows) {
    OrderedJson cells = run;
    cells.update(json_of(row));
    columns.clear();
    lines.emplace_back();
    for (const auto& [key, cell] : cells.items()) {
      columns.push_back({key, key});
      lines.back().push_back(cell);
    }
  }
  ResultTable table(std::move(columns));
  if (images > 0)
    for (std::vector<OrderedJson>& line : lines) table.add(std::move(line));
  return table;
}

void FaithfulnessReport::add_measure(const FaithfulnessMeasure& measure, Report& report) const {
  ResultTable table({{"map", "map"},
                     {"auc", "AUC ± 95 %"},
                     {"stddev", "std. dev.", kDecimals},
                     {"vs_random", "minus random ± 95 %"},
                     {"beats_random", "beats random"},
                     {"beats_center", "beats center"},
                     {"seconds", "seconds", 1}});
  for (const FaithfulnessRow& row : rows) {
    if (row.measure != measure.name) continue;
    const MeanOverPictures area = mean_over(row.areas);
    const auto random = against(row, kRandomMap);
    const auto center = against(row, kCenterMap);
    table.add({row.map, with_margin(area, number_or_dash(area.mean)), area.stddev,
               random ? with_margin(random->difference, with_sign(random->difference.mean)) : "-",
               random ? percent(random->wins) : "-", center ? percent(center->wins) : "-",
               row.seconds});
  }
  report.add_table("",
                   measure.name + ": " + measure.summary + "; " +
                       (measure.lower_is_better ? "lower" : "higher") + " is better (layer " +
                       std::to_string(layer) + ", " + std::to_string(images) +
                       (images == 1 ? " picture)" : " pictures)"),
                   std::move(table), kForPeople);
}

Report FaithfulnessReport::report() const {
  Report report("Maps against chance");
  const std::vector<std::string> all = all_notes();
  report.add("images", images);
  report.add("layer", layer);
  report.add("steps", steps);
  report.add("blur_sigma", images == 0 ? OrderedJson() : OrderedJson(blur_sigma));
  report.add("random_draws", random_draws);
  report.add("seed", seed);
  report.add("map_seconds", map_seconds);
  report.notes = all;
  if (images == 0) report.notes.emplace_back("no picture was measured");
  if (images > 0)
    for (const FaithfulnessMeasure& measure : measures) add_measure(measure, report);
  report.add_table("rows", "", table_of({}), kInJson);
  report.add_table(
      "", "",
      table_of({{"model", model}, {"attention", attention}, {"layer", layer}, {"steps", steps}}),
      kInRows);
  report.summary.add("notes", all, 0, kInJson);
  std::string remark = std::string(kRandomMap) + ": mean of " + std::to_string(random_draws) +
                       " maps per picture, seed " + std::to_string(seed) + "; " +
                       std::string(kCenterMap) + ": Gaussian, sigma a quarter of each edge";
  if (std::ranges::find(measures, "insertion", &FaithfulnessMeasure::name) != measures.end())
    remark += "; blur: Gaussian, sigma " + fixed(blur_sigma, 1) + " pixels";
  if (images > 0) report.remarks.push_back(std::move(remark));
  return report;
}

}  // namespace hydrascope::app
