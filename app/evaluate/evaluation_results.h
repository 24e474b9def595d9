// What `evaluate` and its sisters print: a summary, and tables beside it.
#pragma once

#include "app/evaluate/diagnostics_report.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/faithfulness_report.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/scores/scores.h"
#include "model/image/labels.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace hydrascope::app {

/// One of what stands beside the summary.
struct ResultPart {
  std::string key;                                             ///< in json
  OrderedJson json;                                            ///< its value there
  std::function<void(std::ostream&)> write_text = {};          ///< for people; empty: json alone
  std::function<void(Format, std::ostream&)> write_rows = {};  ///< csv and tsv
  std::vector<std::string> notes = {};  ///< for standard error where the format has no place
};

class EvaluationResults {
 public:
  Summary summary;

  void add(std::string key, const std::string& title, ResultTable table);
  void add(DiagnosticsReport report);
  void add(const FaithfulnessReport& report);
  /// In json alone.
  void add_json(std::string key, const ResultTable& table);

  /// json: one object; text: the summary, then the parts; csv and tsv hold one table, the part's
  /// where there is one.
  void write(Format format, std::ostream& out, const Console& console);

 private:
  std::vector<ResultPart> parts_;
};

/// The tables of `--per-class` and `--confusions`, and the reliability table: beside the summary,
/// or into their files.
void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      EvaluationResults& results);

}  // namespace hydrascope::app
