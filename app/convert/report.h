// The report of a conversion at its end.
#pragma once

#include "app/results/report.h"
#include "model/training/distillation/conversion_history.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// A measure of agreement and its words.
struct AgreementMeasure {
  const char* key;    ///< in reports, logs and metadata: "agreement"
  const char* label;  ///< for people: "agreement"
  const char* unit;   ///< behind a number: " %"
  int digits;         ///< of a number in text
  const char* title;  ///< of its curve
  const char* axis;   ///< of its curve: "% of held-out pictures"
  double model::training::Agreement::*value;

  /// "agreement 85.1 %"
  [[nodiscard]] std::string text(const model::training::Agreement& agreement) const;
};
/// Both measures of a target.
std::span<const AgreementMeasure> measures_of(model::training::Target target);
/// "agreement 85.1 %, divergence 0.0612"
std::string to_text(const model::training::Agreement& agreement);

struct ConversionReport {
  std::string from;
  std::string output;
  std::string before;  ///< attention of `from`
  std::string after;   ///< of the new file
  std::map<std::string, std::string> attention_options;
  std::vector<std::string> sources;  ///< of pictures
  std::string recipe = "{}";         ///< a JSON object
  model::training::ConversionHistory history;
  std::int64_t unreadable = 0;                                   ///< pictures
  std::string precision;                                         ///< of the file
  std::string computed;                                          ///< "cpu, bfloat16, 1 process"
  std::optional<double> top1;                                    ///< on --eval
  std::optional<model::training::Agreement> eval_features = {};  ///< on --eval, of the new file
  std::int64_t eval_images = 0;
};

/// The numbers of the end, tables of stages and layers, and for the page curves.
Report report_of(const ConversionReport& conversion);

}  // namespace hydrascope::app
