// The report of a conversion at its end.
#pragma once

#include "app/results/report.h"
#include "model/training/distillation/conversion_history.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct ConversionReport {
  std::string from;
  std::string output;
  std::string before;  ///< attention of `from`
  std::string after;   ///< of the new file
  std::map<std::string, std::string> attention_options;
  std::vector<std::string> sources;  ///< of pictures
  std::string recipe = "{}";         ///< a JSON object
  std::string plan = {};  ///< the stages as they were fitted to a time, as JSON; "": they were not
  model::training::ConversionHistory history;
  std::int64_t unreadable = 0;  ///< pictures
  std::string precision;        ///< of the file
  std::string computed;         ///< "cpu, bfloat16, 1 process"
  std::optional<double> top1;   ///< on --eval
  std::int64_t eval_images = 0;
};

/// The numbers of the end, tables of stages and layers, and for the page curves.
Report report_of(const ConversionReport& conversion);

/// Throws Error(invalid_argument) for a file of `--report` that is neither .json nor .html, or cannot
/// be written: better before an hour of training than after it.
void check_report_file(const std::string& file);

}  // namespace hydrascope::app
