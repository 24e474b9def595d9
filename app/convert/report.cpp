#include "app/convert/report.h"

#include "app/run/output_file.h"

#include <filesystem>
#include <utility>

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

/// Steps of all stages until `evaluation`: none before the first stage.
std::int64_t steps_until(const Evaluation& evaluation, const ConversionHistory& history) {
  std::int64_t steps = evaluation.step;
  for (const StageSummary& stage : history.stages) {
    if (evaluation.stage == "start" || evaluation.stage == "hydra start") break;
    if (stage.stage == evaluation.stage) break;
    steps += stage.steps;
  }
  return steps;
}

ResultTable evaluation_table(const ConversionHistory& history) {
  ResultTable table({{"stage", "stage"},
                     {"step", "step"},
                     {"steps_of_all", "steps of all stages"},
                     {"minutes", "minutes", 1},
                     {"agreement", "agreement %", 2},
                     {"divergence", "divergence"}});
  for (const Evaluation& evaluation : history.evaluations) {
    table.add({evaluation.stage, evaluation.step, steps_until(evaluation, history),
               evaluation.seconds / kSecondsOfAMinute, evaluation.agreement.top1,
               evaluation.agreement.divergence});
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

void add_facts(const ConversionReport& conversion, Report& report) {
  const ConversionHistory& history = conversion.history;
  const Evaluation& best = history.best_evaluation();
  report.add("from", conversion.from);
  report.add("output", conversion.output);
  report.add("attention_before", conversion.before);
  report.add("attention", conversion.after);
  if (!conversion.attention_options.empty())
    report.add("attention_options", conversion.attention_options);
  report.add("agreement_before", history.start().agreement.top1, 2);
  report.add("agreement", best.agreement.top1, 2);
  report.add("divergence_before", history.start().agreement.divergence, 4);
  report.add("divergence", best.agreement.divergence, 4);
  report.add("best_state", best_state(best));
  report.add("held_out_images", history.held_out_images);
  if (conversion.unreadable > 0) report.add("unreadable_pictures", conversion.unreadable);
  if (conversion.top1) {
    report.add("eval_top1", *conversion.top1, 2);
    report.add("eval_images", conversion.eval_images);
  }
  report.add("minutes", history.seconds / kSecondsOfAMinute, 1);
  report.add("complete", history.is_complete);
  if (!conversion.plan.empty())
    report.summary.add("plan", OrderedJson::parse(conversion.plan), 0, kInJson);
  if (const std::string early = ended_early(history); !early.empty())
    report.add("ended_early", early);
  report.add("precision", conversion.precision);
  report.add("computed", conversion.computed);
}

std::vector<viz::LineChart> charts(const ResultTable& evaluations, const ResultTable& losses) {
  const std::string steps = "steps of all stages";
  std::vector<viz::LineChart> list{{"Same top-1 as the teacher", steps, "% of held-out pictures",
                                    lines_of(evaluations, "steps_of_all", "agreement")},
                                   {"Divergence from the teacher", steps, "KL, nats",
                                    lines_of(evaluations, "steps_of_all", "divergence")}};
  // The stages minimise different things: a chart each.
  for (viz::ChartLine& loss : lines_of(losses, "step", "loss", "stage"))
    list.push_back({"Loss of " + loss.name, "steps", "loss", {loss}});
  return list;
}

}  // namespace

Report report_of(const ConversionReport& conversion) {
  const ConversionHistory& history = conversion.history;
  const auto name = std::filesystem::path(conversion.output).filename().string();
  Report report("hydrascope convert: " + name);
  report.line = conversion.before + " \u2192 " + conversion.after;
  if (conversion.top1)
    report.figure = {fixed(*conversion.top1, 1) + " %",
                     "top-1 of " + std::to_string(conversion.eval_images) + " pictures"};
  else
    report.figure = {fixed(history.best_evaluation().agreement.top1, 1) + " %",
                     "of " + std::to_string(history.held_out_images) +
                         " held-out pictures have the teacher's class"};
  add_facts(conversion, report);
  report.add_table("stages", "Stages", stage_table(history));
  report.add_table("layers", "Layers: relative squared error of attention's output",
                   layer_table(history));
  ResultTable evaluations = evaluation_table(history);
  ResultTable losses = loss_table(history);
  report.charts = charts(evaluations, losses);
  report.add_table("evaluations", "", std::move(evaluations), kInJson);
  report.add_table("losses", "", std::move(losses), kInJson);
  report.summary.add("sources", conversion.sources, 0, kInJson);
  ResultTable sources(std::vector<TableColumn>{{"pictures", "pictures: learned from + held out"}});
  for (const std::string& source : conversion.sources) sources.add({source});
  report.add_table("", "Pictures", std::move(sources), kOnPage | kFolded);
  const OrderedJson recipe = OrderedJson::parse(conversion.recipe);
  report.summary.add("recipe", recipe, 0, kInJson);
  report.add_table("", "Recipe", ResultTable::of_settings(recipe), kOnPage | kFolded);
  if (!history.failure.empty()) report.notes.push_back("it failed: " + history.failure);
  return report;
}

void check_report_file(const std::string& file) {
  check_extension(file, "`report`", {".json", ".html"});
  check_output_file(file, "`report`");
}

}  // namespace hydrascope::app
