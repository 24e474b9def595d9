#include "app/convert/report.h"

#include "app/console.h"
#include "app/convert/line_chart.h"
#include "app/json_text.h"
#include "kernels/error.h"

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

constexpr double kSecondsOfAMinute = 60;

double rate(const StageSummary& stage) {
  return stage.seconds > 0 ? static_cast<double>(stage.images) / stage.seconds : 0;
}

std::string minutes(double seconds) { return fixed(seconds / kSecondsOfAMinute, 1); }

std::string number(double value, int decimals) { return json_number(decimal(value, decimals)); }

template <class Entry, class ToJson>
std::string array_of(const std::vector<Entry>& list, ToJson&& to_json) {
  std::string text = "[";
  for (const Entry& entry : list) text += (text.size() > 1 ? "," : "") + to_json(entry);
  return text + "]";
}

std::string evaluation_json(const Evaluation& evaluation) {
  return JsonObject()
      .add("stage", json_string(evaluation.stage))
      .add("step", evaluation.step)
      .add("minutes", number(evaluation.seconds / kSecondsOfAMinute, 2))
      .add("agreement", number(evaluation.agreement.top1, 2))
      .add("divergence", number(evaluation.agreement.divergence, 4))
      .text();
}

std::string stage_json(const StageSummary& stage) {
  return JsonObject()
      .add("stage", json_string(stage.stage))
      .add("steps", stage.steps)
      .add("planned_steps", stage.planned_steps)
      .add("images", stage.images)
      .add("seconds", number(stage.seconds, 1))
      .add("images_per_second", number(rate(stage), 1))
      .add("ended_early", stage.ended_early ? "true" : "false")
      .text();
}

std::string layer_json(const LayerFidelity& layer) {
  return JsonObject()
      .add("layer", layer.layer)
      .add("mechanism", json_string(layer.mechanism))
      .add("error_before", number(layer.before, 4))
      .add("error_after", number(layer.after, 4))
      .text();
}

std::string loss_json(const LossPoint& point) {
  return JsonObject()
      .add("stage", json_string(point.stage))
      .add("step", point.step)
      .add("minutes", number(point.seconds / kSecondsOfAMinute, 2))
      .add("loss", json_number(significant(point.loss, 5)))
      .add("learning_rate", json_number(significant(point.learning_rate, 4)))
      .text();
}

std::string best_state(const Evaluation& best) {
  return best.stage == "start" ? best.stage : best.stage + " " + std::to_string(best.step);
}

KeyValueReport summary_of(const ConversionReport& report) {
  const ConversionHistory& history = report.history;
  const Evaluation& best = history.best_evaluation();
  KeyValueReport summary;
  summary.add("schema", std::int64_t{1});
  summary.add("from", report.from);
  summary.add("output", report.output);
  summary.add("attention_before", report.before);
  summary.add("attention", report.after);
  if (!report.attention_options.empty())
    summary.add_json("attention_options", json_object(report.attention_options));
  summary.add("agreement_before", history.start().agreement.top1, 2);
  summary.add("agreement", best.agreement.top1, 2);
  summary.add("divergence_before", history.start().agreement.divergence, 4);
  summary.add("divergence", best.agreement.divergence, 4);
  summary.add("best_state", best_state(best));
  summary.add("held_out_images", history.held_out_images);
  if (report.top1) {
    summary.add("eval_top1", *report.top1, 2);
    summary.add("eval_images", report.eval_images);
  }
  summary.add("minutes", history.seconds / kSecondsOfAMinute, 1);
  summary.add("complete", history.is_complete);
  summary.add("precision", report.precision);
  summary.add("computed", report.computed);
  return summary;
}

void write_tables(const ConversionReport& report, std::ostream& out) {
  const auto cell = [&](const std::string& text, std::size_t width) {
    out << std::string(width - std::min(width, text.size()), ' ') << text;
  };
  out << "\nstage       steps   images  minutes  images/s\n";
  for (const StageSummary& stage : report.history.stages) {
    out << stage.stage << std::string(9 - std::min<std::size_t>(9, stage.stage.size()), ' ');
    cell(std::to_string(stage.steps), 8);
    cell(std::to_string(stage.images), 9);
    cell(minutes(stage.seconds), 9);
    cell(fixed(rate(stage), 1), 10);
    out << (stage.ended_early ? "  ended early" : "") << '\n';
  }
  out << "\nlayer  attention    error before    after\n";
  for (const LayerFidelity& layer : report.history.layers) {
    cell(std::to_string(layer.layer), 5);
    out << "  " << layer.mechanism
        << std::string(11 - std::min<std::size_t>(11, layer.mechanism.size()), ' ');
    cell(fixed(layer.before, 3), 14);
    cell(fixed(layer.after, 3), 9);
    out << '\n';
  }
}

std::string full_json(const ConversionReport& report) {
  KeyValueReport summary = summary_of(report);
  const ConversionHistory& history = report.history;
  summary.add_json("stages", array_of(history.stages, stage_json));
  summary.add_json("layers", array_of(history.layers, layer_json));
  summary.add_json("evaluations", array_of(history.evaluations, evaluation_json));
  summary.add_json("losses", array_of(history.losses, loss_json));
  summary.add_json("sources", array_of(report.sources, [](const std::string& source) {
                     return json_string(source);
                   }));
  summary.add_json("recipe", json_object(report.recipe));
  std::ostringstream out;
  summary.write(Format::json, out);
  return out.str();
}

/// Steps of all stages before each.
std::vector<std::pair<double, std::string>> stage_marks(const ConversionHistory& history) {
  std::vector<std::pair<double, std::string>> marks;
  double steps = 0;
  for (const StageSummary& stage : history.stages) {
    marks.emplace_back(steps, stage.stage);
    steps += static_cast<double>(stage.steps);
  }
  return marks;
}

std::string charts(const ConversionHistory& history) {
  const auto marks = stage_marks(history);
  const auto step_of = [&](const std::string& stage, std::int64_t step) {
    const auto mark = std::ranges::find(marks, stage, &std::pair<double, std::string>::second);
    return (mark == marks.end() ? 0 : mark->first) + static_cast<double>(step);
  };
  ChartLine agreement{"same top-1 as the teacher, % of held-out images", {}};
  ChartLine divergence{"divergence from the teacher (KL, nats)", {}};
  for (const Evaluation& evaluation : history.evaluations) {
    const double step = step_of(evaluation.stage, evaluation.step);
    agreement.points.emplace_back(step, evaluation.agreement.top1);
    divergence.points.emplace_back(step, evaluation.agreement.divergence);
  }
  std::vector<ChartLine> losses;
  ChartLine learning_rate{"learning rate", {}};
  for (const LossPoint& point : history.losses) {
    auto line = std::ranges::find(losses, point.stage, &ChartLine::name);
    if (line == losses.end()) line = losses.insert(losses.end(), {point.stage, {}});
    line->points.emplace_back(step_of(point.stage, point.step), point.loss);
    learning_rate.points.emplace_back(step_of(point.stage, point.step), point.learning_rate);
  }
  const std::string x_label = "steps of all stages";
  return line_chart_svg({"Agreement", x_label, {agreement}, false, marks}) +
         line_chart_svg({"Divergence", x_label, {divergence}, true, marks}) +
         line_chart_svg({"Loss", x_label, losses, true, marks}) +
         line_chart_svg({"Learning rate", x_label, {learning_rate}, true, marks});
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string tag = i == 0 ? "th" : "td";
    text += "<tr>";
    for (const std::string& value : rows[i])
      text += "<" + tag + ">" + escape_html(value) + "</" + tag + ">";
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
    facts.push_back({"top-1 on " + std::to_string(report.eval_images) + " labelled images, %", "",
                     fixed(*report.top1, 2)});
  }
  std::vector<std::vector<std::string>> stages{{"stage", "steps", "images", "minutes", "images/s"}};
  for (const StageSummary& stage : history.stages) {
    stages.push_back({stage.stage + (stage.ended_early ? " (ended early)" : ""),
                      std::to_string(stage.steps), std::to_string(stage.images),
                      minutes(stage.seconds), fixed(rate(stage), 1)});
  }
  std::vector<std::vector<std::string>> layers{
      {"layer", "attention", "error before", "error after"}};
  for (const LayerFidelity& layer : history.layers) {
    layers.push_back({std::to_string(layer.layer), layer.mechanism, fixed(layer.before, 3),
                      fixed(layer.after, 3)});
  }
  std::vector<std::vector<std::string>> recipe{{"setting", "value"}};
  for (const auto& [key, value] : report.recipe) recipe.push_back({key, value});
  std::string sources;
  for (const std::string& source : report.sources)
    sources += "<li>" + escape_html(source) + "</li>\n";
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width\">"
         "<title>hydrascope convert</title>\n<style>body{font-family:sans-serif;margin:2em auto;"
         "max-width:60em;padding:0 1em}table{border-collapse:collapse;margin:1em 0}"
         "td,th{border:1px solid #ccc;padding:3px 10px;text-align:right}"
         "td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}</style>"
         "</head><body>\n<h1>" +
         escape_html(report.after) + "</h1>\n<p>" + escape_html(report.from) + " &rarr; " +
         escape_html(report.output) + ", " + minutes(history.seconds) + " minutes on " +
         escape_html(report.computed) + ". Kept: the state of " + escape_html(best_state(best)) +
         ", judged by " + std::to_string(history.held_out_images) +
         " images that nothing was learned from.</p>\n" + html_table(facts) + charts(history) +
         "<h2>Stages</h2>\n" + html_table(stages) +
         "<h2>Layers</h2>\n<p>Relative squared error of attention's output on the teacher's "
         "tokens.</p>\n" +
         html_table(layers) + "<h2>Pictures</h2>\n<p>Learned from + held out.</p><ul>\n" + sources +
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
  write_tables(report, out);
  flush_results(out);
}

void check_report_file(const std::string& file) {
  if (!file.ends_with(".json") && !file.ends_with(".html")) {
    throw Error(ErrorCode::invalid_argument, "expected a file ending in .json or .html",
                "--report " + file);
  }
}

void save_report(const ConversionReport& report, const std::string& file) {
  check_report_file(file);
  OutputFile output(file);
  output.stream() << (file.ends_with(".json") ? full_json(report) : page(report));
  output.close();
}

}  // namespace hydrascope::app
