#include "app/convert/report.h"

#include "app/console.h"
#include "app/results/json.h"
#include "app/results/table.h"
#include "kernels/error.h"
#include "viz/html_report/markup.h"
#include "viz/line_chart.h"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace hydrascope::app {
namespace {

using model::training::ConversionHistory;
using model::training::Evaluation;
using model::training::LayerFidelity;
using model::training::LossPoint;
using model::training::StageSummary;
using viz::line_chart_svg;
using viz::page::escaped;

constexpr double kSecondsOfAMinute = 60;

std::string minutes(double seconds) { return fixed(seconds / kSecondsOfAMinute, 1); }

double rate(const StageSummary& stage) {
  return stage.seconds > 0 ? static_cast<double>(stage.images) / stage.seconds : 0;
}

ResultTable stage_table(const ConversionHistory& history) {
  ResultTable table({{"stage", "stage"},
                     {"steps", "steps"},
                     {"planned_steps", "planned"},
                     {"images", "images"},
                     {"minutes", "minutes", 1},
                     {"images_per_second", "images/s", 1}});
  for (const StageSummary& stage : history.stages) {
    table.add({stage.stage, stage.steps, stage.planned_steps, stage.images,
               stage.seconds / kSecondsOfAMinute, rate(stage)});
  }
  return table;
}

ResultTable layer_table(const ConversionHistory& history) {
  ResultTable table({{"layer", "layer"},
                     {"mechanism", "attention"},
                     {"error_before", "error before"},
                     {"error_after", "error after"}});
  for (const LayerFidelity& layer : history.layers)
    table.add({layer.layer, layer.mechanism, layer.before, layer.after});
  return table;
}

ResultTable evaluation_table(const ConversionHistory& history) {
  ResultTable table({{"stage", "stage"},
                     {"step", "step"},
                     {"minutes", "minutes", 1},
                     {"agreement", "agreement %", 2},
                     {"divergence", "divergence"}});
  for (const Evaluation& evaluation : history.evaluations) {
    table.add({evaluation.stage, evaluation.step, evaluation.seconds / kSecondsOfAMinute,
               evaluation.agreement.top1, evaluation.agreement.divergence});
  }
  return table;
}

ResultTable loss_table(const ConversionHistory& history) {
  ResultTable table({{"stage", "stage"},
                     {"step", "step"},
                     {"minutes", "minutes", 1},
                     {"loss", "loss"},
                     {"learning_rate", "learning rate"}});
  for (const LossPoint& point : history.losses) {
    table.add({point.stage, point.step, point.seconds / kSecondsOfAMinute, point.loss,
               point.learning_rate});
  }
  return table;
}

/// "finetune after 26 of 380 steps", "" where every stage that began went to its end.
std::string ended_early(const ConversionHistory& history) {
  std::string text;
  for (const StageSummary& stage : history.stages) {
    if (!stage.ended_early) continue;
    text += (text.empty() ? "" : ", ") + stage.stage + " after " + std::to_string(stage.steps) +
            " of " + std::to_string(stage.planned_steps) + " steps";
  }
  return text;
}

std::string best_state(const Evaluation& best) {
  return best.step == 0 ? best.stage : best.stage + " " + std::to_string(best.step);
}

Summary summary_of(const ConversionReport& report) {
  const ConversionHistory& history = report.history;
  const Evaluation& best = history.best_evaluation();
  Summary summary;
  summary.add("from", report.from);
  summary.add("output", report.output);
  summary.add("attention_before", report.before);
  summary.add("attention", report.after);
  if (!report.attention_options.empty()) summary.add("attention_options", report.attention_options);
  summary.add("agreement_before", history.start().agreement.top1, 2);
  summary.add("agreement", best.agreement.top1, 2);
  summary.add("divergence_before", history.start().agreement.divergence, 4);
  summary.add("divergence", best.agreement.divergence, 4);
  summary.add("best_state", best_state(best));
  summary.add("held_out_images", history.held_out_images);
  if (report.unreadable > 0) summary.add("unreadable_pictures", report.unreadable);
  if (report.top1) {
    summary.add("eval_top1", *report.top1, 2);
    summary.add("eval_images", report.eval_images);
  }
  summary.add("minutes", history.seconds / kSecondsOfAMinute, 1);
  summary.add("complete", history.is_complete);
  if (const std::string early = ended_early(history); !early.empty())
    summary.add("ended_early", early);
  summary.add("precision", report.precision);
  summary.add("computed", report.computed);
  return summary;
}

std::string full_json(const ConversionReport& report) {
  Summary summary = summary_of(report);
  const ConversionHistory& history = report.history;
  summary.add("stages", stage_table(history).json());
  summary.add("layers", layer_table(history).json());
  summary.add("evaluations", evaluation_table(history).json());
  summary.add("losses", loss_table(history).json());
  summary.add("sources", report.sources);
  summary.add("recipe", OrderedJson::parse(report.recipe));
  std::ostringstream out;
  summary.write(Format::json, out);
  return out.str();
}

std::string charts(const ConversionHistory& history) {
  const auto step_of = [&](const std::string& stage, std::int64_t step) {
    for (const StageSummary& summary : history.stages) {
      if (summary.stage == stage) break;
      // Before the first stage steps are zero.
      if (stage == "start" || stage == "hydra start") break;
      step += summary.steps;
    }
    return static_cast<double>(step);
  };
  viz::ChartLine agreement{"agreement", {}};
  viz::ChartLine divergence{"divergence", {}};
  for (const Evaluation& evaluation : history.evaluations) {
    const double step = step_of(evaluation.stage, evaluation.step);
    agreement.points.emplace_back(step, evaluation.agreement.top1);
    divergence.points.emplace_back(step, evaluation.agreement.divergence);
  }
  const std::string steps = "steps of all stages";
  std::string text =
      line_chart_svg({"Same top-1 as the teacher", steps, "% of held-out pictures", {agreement}}) +
      line_chart_svg({"Divergence from the teacher", steps, "KL, nats", {divergence}});
  // What the stages minimise has nothing in common: a chart each.
  for (const StageSummary& stage : history.stages) {
    viz::ChartLine loss{stage.stage, {}};
    for (const LossPoint& point : history.losses)
      if (point.stage == stage.stage)
        loss.points.emplace_back(static_cast<double>(point.step), point.loss);
    text += line_chart_svg({"Loss of " + stage.stage, "steps", "loss", {loss}});
  }
  return text;
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string tag = i == 0 ? "th" : "td";
    text += "<tr>";
    for (const std::string& value : rows[i])
      text += "<" + tag + ">" + escaped(value) + "</" + tag + ">";
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

std::string page(const ConversionReport& report) {
  const ConversionHistory& history = report.history;
  const Evaluation& best = history.best_evaluation();
  std::vector<std::vector<std::string>> facts{
      {"", "before", "after"},
      {"attention", report.before, report.after},
      {"same top-1 as the teacher, %", fixed(history.start().agreement.top1, 2),
       fixed(best.agreement.top1, 2)},
      {"divergence, nats", fixed(history.start().agreement.divergence, 4),
       fixed(best.agreement.divergence, 4)}};
  if (report.top1) {
    facts.push_back({"top-1 on " + std::to_string(report.eval_images) + " labelled pictures, %", "",
                     fixed(*report.top1, 2)});
  }
  std::string warnings;
  const auto warn = [&](const std::string& text) {
    warnings += "<p><strong>" + escaped(text) + "</strong></p>\n";
  };
  if (!history.is_complete) warn("The conversion is not complete.");
  if (!history.failure.empty()) warn("It failed: " + history.failure);
  if (const std::string early = ended_early(history); !early.empty()) warn("Ended early: " + early);
  if (report.unreadable > 0) warn(std::to_string(report.unreadable) + " pictures were unreadable.");
  std::vector<std::vector<std::string>> recipe{{"setting", "value"}};
  const auto settings = OrderedJson::parse(report.recipe);
  for (const auto& [key, value] : settings.items())
    recipe.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  std::string sources;
  for (const std::string& source : report.sources) sources += "<li>" + escaped(source) + "</li>\n";
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width\">"
         "<title>hydrascope convert</title>\n<style>body{font-family:sans-serif;margin:2em auto;"
         "max-width:60em;padding:0 1em}table{border-collapse:collapse;margin:1em 0}"
         "td,th{border:1px solid #ccc;padding:3px 10px;text-align:right}"
         "td:first-child,th:first-child{text-align:left}svg{margin:0 1em 1em 0}</style>"
         "</head><body>\n<h1>" +
         escaped(report.after) + "</h1>\n<p>" + escaped(report.from) + " &rarr; " +
         escaped(report.output) + ", " + minutes(history.seconds) + " minutes on " +
         escaped(report.computed) + ". Kept: the state of " + escaped(best_state(best)) +
         ", judged by " + std::to_string(history.held_out_images) +
         " pictures that nothing was learned from.</p>\n" + warnings + html_table(facts) +
         charts(history) + "<h2>Stages</h2>\n" + html_table(stage_table(history).texts()) +
         "<h2>Layers</h2>\n<p>Relative squared error of attention's output on the teacher's "
         "tokens.</p>\n" +
         html_table(layer_table(history).texts()) +
         "<h2>Pictures</h2>\n<p>Learned from + held out.</p><ul>\n" + sources +
         "</ul>\n<h2>Recipe</h2>\n" + html_table(recipe) + "</body></html>\n";
}

}  // namespace

void write_report(const ConversionReport& report, Format format, std::ostream& out) {
  if (format == Format::json) {
    out << full_json(report);
    flush_results(out);
    return;
  }
  summary_of(report).write(format, out);
  if (format != Format::text) return;
  out << '\n';
  stage_table(report.history).write(format, out);
  out << '\n';
  layer_table(report.history).write(format, out);
}

void check_report_file(const std::string& file) {
  if (!file.ends_with(".json") && !file.ends_with(".html")) {
    throw Error(ErrorCode::invalid_argument, "expected a file ending in .json or .html",
                "--report " + file);
  }
  check_output_file(file, "--report");
}

void save_report(const ConversionReport& report, const std::string& file) {
  check_report_file(file);
  OutputFile output(file, "--report");
  output.stream() << (file.ends_with(".json") ? full_json(report) : page(report));
  output.close();
}

}  // namespace hydrascope::app
