#include "app/convert/report.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hydrascope::app {
namespace {

using model::training::ConversionHistory;
using model::training::Evaluation;
using model::training::LayerFidelity;
using model::training::StageSummary;

constexpr double kSecondsOfAMinute = 60;

constexpr AgreementMeasure kOfLogits[] = {
    {"agreement", "agreement", " %", 1, "Same top-1 as the teacher", "% of held-out pictures",
     &model::training::Agreement::top1},
    {"divergence", "divergence", "", 4, "Divergence from the teacher", "KL, nats",
     &model::training::Agreement::divergence}};
constexpr AgreementMeasure kOfFeatures[] = {
    {"pooled_cosine", "pooled cosine", "", 4, "Pooled vector and the teacher's", "mean cosine",
     &model::training::Agreement::pooled_cosine},
    {"patch_cosine", "patch cosine", "", 4, "Patch tokens and the teacher's", "mean cosine",
     &model::training::Agreement::patch_cosine}};

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

model::training::Target target_of(const ConversionHistory& history) {
  return history.best_evaluation().agreement.target;
}

ResultTable evaluation_table(const ConversionHistory& history) {
  std::vector<TableColumn> columns{{"stage", "stage"},
                                   {"step", "step"},
                                   {"steps_of_all", "steps of all stages"},
                                   {"minutes", "minutes", 1}};
  const auto measures = measures_of(target_of(history));
  for (const AgreementMeasure& measure : measures)
    columns.push_back({measure.key, measure.label + std::string(measure.unit)});
  ResultTable table(std::move(columns));
  for (const Evaluation& evaluation : history.evaluations) {
    std::vector<OrderedJson> row{evaluation.stage, evaluation.step,
                                 steps_until(evaluation, history),
                                 evaluation.seconds / kSecondsOfAMinute};
    for (const AgreementMeasure& measure : measures)
      row.emplace_back(evaluation.agreement.*measure.value);
    table.add(std::move(row));
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
  for (const AgreementMeasure& measure : measures_of(target_of(history))) {
    const std::string key = measure.key;
    const int digits = std::max(measure.digits, 2);
    report.add(key + "_before", history.start().agreement.*measure.value, digits);
    report.add(key, best.agreement.*measure.value, digits);
  }
  report.add("best_state", best_state(best));
  report.add("held_out_images", history.held_out_images);
  if (conversion.unreadable > 0) report.add("unreadable_pictures", conversion.unreadable);
  if (conversion.top1) report.add("eval_top1", *conversion.top1, 2);
  if (conversion.eval_features)
    for (const AgreementMeasure& measure : measures_of(model::training::Target::features))
      report.add(std::string("eval_") + measure.key, *conversion.eval_features.*measure.value,
                 measure.digits);
  if (conversion.top1 || conversion.eval_features)
    report.add("eval_images", conversion.eval_images);
  report.add("minutes", history.seconds / kSecondsOfAMinute, 1);
  report.add("complete", history.is_complete);
  if (const std::string early = ended_early(history); !early.empty())
    report.add("ended_early", early);
  report.add("precision", conversion.precision);
  report.add("computed", conversion.computed);
}

}  // namespace

std::span<const AgreementMeasure> measures_of(model::training::Target target) {
  if (target == model::training::Target::logits) return kOfLogits;
  return kOfFeatures;
}

std::string AgreementMeasure::text(const model::training::Agreement& agreement) const {
  return std::string(label) + " " + fixed(agreement.*value, digits) + unit;
}

std::string to_text(const model::training::Agreement& agreement) {
  std::string text;
  for (const AgreementMeasure& measure : measures_of(agreement.target))
    text += (text.empty() ? "" : ", ") + measure.text(agreement);
  return text;
}

Report report_of(const ConversionReport& conversion) {
  const ConversionHistory& history = conversion.history;
  const auto name = std::filesystem::path(conversion.output).filename().string();
  Report report("hydrascope convert: " + name);
  report.line = conversion.before + " \u2192 " + conversion.after;
  if (conversion.top1)
    report.figure = {fixed(*conversion.top1, 1) + " %",
                     "top-1 of " + std::to_string(conversion.eval_images) + " pictures"};
  else if (target_of(history) == model::training::Target::logits)
    report.figure = {fixed(history.best_evaluation().agreement.top1, 1) + " %",
                     "of " + std::to_string(history.held_out_images) +
                         " held-out pictures have the teacher's class"};
  else
    report.figure = {fixed(history.best_evaluation().agreement.pooled_cosine, 4),
                     "mean cosine of the pooled vector and the teacher's, " +
                         std::to_string(history.held_out_images) + " held-out pictures"};
  add_facts(conversion, report);
  report.add_table("stages", "Stages", stage_table(history));
  report.add_table("layers", "Layers: relative squared error of attention's output",
                   layer_table(history));
  ResultTable evaluations = evaluation_table(history);
  for (const AgreementMeasure& measure : measures_of(target_of(history)))
    report.charts.push_back({measure.title, "steps of all stages", measure.axis,
                             lines_of(evaluations, "steps_of_all", measure.key)});
  report.add_table("evaluations", "", std::move(evaluations), kInJson);
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

}  // namespace hydrascope::app
