#include "app/convert/report.h"

#include "app/results/json.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "viz/charts/chart_page.h"

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

std::vector<viz::LineChart> charts(const ConversionHistory& history) {
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
  std::vector<viz::LineChart> list{
      {"Same top-1 as the teacher", steps, "% of held-out pictures", {agreement}},
      {"Divergence from the teacher", steps, "KL, nats", {divergence}}};
  // What the stages minimise has nothing in common: a chart each.
  for (const StageSummary& stage : history.stages) {
    viz::ChartLine loss{stage.stage, {}};
    for (const LossPoint& point : history.losses)
      if (point.stage == stage.stage)
        loss.points.emplace_back(static_cast<double>(point.step), point.loss);
    list.push_back({"Loss of " + stage.stage, "steps", "loss", {loss}});
  }
  return list;
}

std::string page_of(const ConversionReport& report) {
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
  viz::ChartPage page("hydrascope convert", report.after);
  page.add_paragraph(report.from + " \u2192 " + report.output + ", " + minutes(history.seconds) +
                     " minutes on " + report.computed + ". Kept: the state of " + best_state(best) +
                     ", judged by " + std::to_string(history.held_out_images) +
                     " pictures that nothing was learned from.");
  if (!history.is_complete) page.add_warning("The conversion is not complete.");
  if (!history.failure.empty()) page.add_warning("It failed: " + history.failure);
  if (const std::string early = ended_early(history); !early.empty())
    page.add_warning("Ended early: " + early);
  if (report.unreadable > 0)
    page.add_warning(std::to_string(report.unreadable) + " pictures were unreadable.");
  page.add_table(facts);
  page.add_charts(charts(history));
  page.add_heading("Stages");
  const ResultTable stages = stage_table(history);
  page.add_table(stages.texts(), stages.to_left());
  page.add_heading("Layers");
  page.add_paragraph("Relative squared error of attention's output on the teacher's tokens.");
  const ResultTable layers = layer_table(history);
  page.add_table(layers.texts(), layers.to_left());
  page.add_heading("Pictures");
  page.add_paragraph("Learned from + held out.");
  page.add_list(report.sources);
  std::vector<std::vector<std::string>> recipe{{"setting", "value"}};
  const auto settings = OrderedJson::parse(report.recipe);
  for (const auto& [key, value] : settings.items())
    recipe.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  page.add_heading("Recipe");
  page.add_table(recipe, {true, true});
  return page.html();
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
    throw UsageError("expected a file ending in .json or .html", "--report " + file);
  }
  check_output_file(file, "--report");
}

void save_report(const ConversionReport& report, const std::string& file) {
  check_report_file(file);
  OutputFile output(file, "--report");
  output.stream() << (file.ends_with(".json") ? full_json(report) : page_of(report));
  output.close();
}

}  // namespace hydrascope::app
