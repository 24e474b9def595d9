// The table of `faithfulness`: how well each map names the patches that count, beside
// random maps and the centre.
#pragma once

#include "app/results/report.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

inline constexpr std::string_view kRandomMap = "random";
inline constexpr std::string_view kCenterMap = "center";

/// How the areas of a measure came about.
struct FaithfulnessMeasure {
  std::string name;     ///< "deletion"
  std::string summary;  ///< a line for people
  bool lower_is_better = false;
};

/// One map by one measure.
struct FaithfulnessRow {
  std::string map;                 ///< "hydra", `kRandomMap`, `kCenterMap`
  std::string measure;             ///< name of a FaithfulnessMeasure
  std::vector<double> areas = {};  ///< one per picture, the same pictures in every row
  double seconds = 0;              ///< of the model
};

/// A mean over pictures; margins are half of a 95 % interval by Student's t. NaN where there are too
/// few: no picture has a mean, and one no spread.
struct MeanOverPictures {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double stddev = std::numeric_limits<double>::quiet_NaN();  ///< of a sample (n - 1)
  double standard_error = std::numeric_limits<double>::quiet_NaN();
  double margin = std::numeric_limits<double>::quiet_NaN();
};
MeanOverPictures mean_over(const std::vector<double>& values);

/// One map against another on the same pictures, by the differences picture by picture.
struct PairedComparison {
  MeanOverPictures difference;  ///< first minus second
  double wins = std::numeric_limits<
      double>::quiet_NaN();  ///< share of pictures on which the first is strictly better
};
PairedComparison compare(const FaithfulnessRow& first, const FaithfulnessRow& second,
                         bool lower_is_better);

struct FaithfulnessReport {
  std::string model;
  std::string attention;
  std::int64_t layer = 0;
  std::int64_t steps = 0;  ///< of deletion and insertion
  double blur_sigma = 0;   ///< of insertion, in pixels, at the size of the last picture
  std::int64_t random_draws = 0;
  std::int64_t seed = 0;
  std::int64_t images = 0;
  double map_seconds = 0;  ///< to make the maps
  std::vector<FaithfulnessMeasure> measures;
  std::vector<FaithfulnessRow> rows;  ///< measures x maps; random and centre among them
  std::vector<std::string> notes;     ///< of the methods

  /// Notes for the reader: the methods' own, and which methods do not beat the centre.
  [[nodiscard]] std::vector<std::string> all_notes() const;
  /// A row for each map and measure; for people a table for each measure.
  [[nodiscard]] Report report() const;

 private:
  /// The values of a row, once for every format; null where a number has no meaning.
  [[nodiscard]] OrderedJson json_of(const FaithfulnessRow& row) const;
  /// All rows, each behind the members of `run`; none where no picture was measured.
  [[nodiscard]] ResultTable table_of(const OrderedJson& run) const;
  /// The table of a measure for people.
  void add_measure(const FaithfulnessMeasure& measure, Report& report) const;
  [[nodiscard]] const FaithfulnessRow* find_or_null(std::string_view map,
                                                    std::string_view measure) const;
  [[nodiscard]] const FaithfulnessMeasure& measure_of(const FaithfulnessRow& row) const;
  /// Nothing for the baseline itself.
  [[nodiscard]] std::optional<PairedComparison> against(const FaithfulnessRow& row,
                                                        std::string_view baseline) const;
};

}  // namespace hydrascope::app
