#include "app/evaluate/evaluation_results.h"

#include "app/run/output_file.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace hydrascope::app {

void EvaluationResults::add(std::string key, const std::string& title, ResultTable table) {
  const auto kept = std::make_shared<ResultTable>(std::move(table));
  parts_.push_back({std::move(key), kept->json(),
                    [=](std::ostream& out) {
                      out << '\n' << title << '\n';
                      kept->write(Format::text, out);
                    },
                    [=](Format format, std::ostream& out) { kept->write(format, out); }});
}

void EvaluationResults::add(DiagnosticsReport report) {
  const auto kept = std::make_shared<DiagnosticsReport>(std::move(report));
  parts_.push_back({"diagnostics", kept->json(),
                    [=](std::ostream& out) {
                      out << '\n';
                      kept->write_text(out);
                    },
                    [=](Format format, std::ostream& out) { kept->table().write(format, out); },
                    kept->notes});
}

void EvaluationResults::add(const FaithfulnessReport& report) {
  parts_.push_back({"faithfulness", report.json(),
                    [&report](std::ostream& out) { report.write_text(out); },
                    [&report](Format format, std::ostream& out) { report.write_rows(format, out); },
                    report.all_notes()});
}

void EvaluationResults::add_json(std::string key, const ResultTable& table) {
  parts_.push_back({std::move(key), table.json()});
}

void EvaluationResults::write(Format format, std::ostream& out, const Console& console) {
  const bool in_rows = is_rows(format);
  if (in_rows) {
    const auto part = std::ranges::find_if(
        parts_, [](const ResultPart& one) { return one.write_rows != nullptr; });
    if (part != parts_.end()) {
      part->write_rows(format, out);
      for (const std::string& note : part->notes) console.note("note: " + note);
      return;
    }
  }
  if (is_json(format)) {
    for (const ResultPart& part : parts_) summary.add(part.key, part.json);
  }
  summary.write(format, out);
  if (format != Format::text) return;
  for (const ResultPart& part : parts_)
    if (part.write_text) part.write_text(out);
}

void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      EvaluationResults& results) {
  results.add_json("reliability", scores.calibration().reliability());
  if (const std::string& file = wanted.per_class; file == "-") {
    results.add("per_class", "by class", scores.confusions().classes(labels));
  } else if (!file.empty()) {
    OutputFile output(file, "--per-class");
    scores.confusions().classes(labels).write(choose_format("", file), output.stream());
    output.close();
  }
  if (wanted.confusions > 0) {
    results.add("confusions", "most frequent confusions",
                scores.confusions().pairs(wanted.confusions, labels));
  }
}

}  // namespace hydrascope::app
