#include "model/training/distillation/conversion_plan.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {
namespace {

using Json = nlohmann::json;

constexpr double kShareOfLooks = 0.05;
constexpr std::int64_t kLeastSteps = 10;
/// A last stage of fewer steps takes smaller batches.
constexpr std::int64_t kManySteps = 300;
/// Below that a step takes hardly less time.
constexpr std::int64_t kLeastBatch = 8;
/// The last stage's rate is its own times this power of its share: measured for Hydra
/// (docs/notes/conversion.md).
constexpr double kRatePower = 0.15;

bool is_last_kind(Stage stage) { return stage >= Stage::finetune; }

/// `whole` with this share of the last stages' steps.
PlannedStage shortened(const PlannedStage& whole, double share, const ConversionCosts& costs,
                       bool ends_run) {
  PlannedStage part = whole;
  StageOptions& options = part.options;
  const auto steps_of = [&](std::int64_t steps) {
    const double left = is_last_kind(whole.stage) ? share : std::sqrt(share);
    return static_cast<std::int64_t>(left * static_cast<double>(steps));
  };
  options.steps = std::max<std::int64_t>(1, steps_of(whole.options.steps));
  options.warmup_steps = std::min(steps_of(whole.options.warmup_steps), options.steps - 1);
  const double seconds = static_cast<double>(options.steps) * costs.of_step(whole);
  const double looks = kShareOfLooks * seconds / std::max(costs.look, 1e-9);
  options.evaluations =
      static_cast<std::int64_t>(std::min(looks, static_cast<double>(whole.options.evaluations)));
  if (ends_run) options.evaluations = std::max<std::int64_t>(1, options.evaluations);
  return part;
}

/// The stages with the largest share that takes at most `seconds`, or with none.
std::vector<PlannedStage> shortened_to(const std::vector<PlannedStage>& whole,
                                       const ConversionCosts& costs, double seconds) {
  const auto with_share = [&](double share) {
    std::vector<PlannedStage> shorter;
    for (const PlannedStage& stage : whole)
      shorter.push_back(shortened(stage, share, costs, &stage == &whole.back()));
    return shorter;
  };
  double fits = 0;
  double does_not = 1;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (fits + does_not) / 2;
    (seconds_of(with_share(middle), costs) <= seconds ? fits : does_not) = middle;
  }
  return with_share(fits);
}

/// Half of the pictures in a step of the stages that train weights, in twice as many steps of the last
/// ones. False where a batch is small, and where no stage trains weights.
bool halve_batches(std::vector<PlannedStage>& stages) {
  const auto is_halved = [](const PlannedStage& planned) { return planned.stage != Stage::maps; };
  if (std::ranges::none_of(stages, is_halved) ||
      std::ranges::any_of(stages, [&](const PlannedStage& planned) {
        return is_halved(planned) && planned.options.batch_size < 2 * kLeastBatch;
      }))
    return false;
  for (PlannedStage& planned : stages) {
    StageOptions& options = planned.options;
    if (!is_halved(planned)) continue;
    if (is_last_kind(planned.stage)) {
      options.steps = options.steps * options.batch_size / (options.batch_size / 2);
      options.warmup_steps *= 2;
    }
    options.batch_size /= 2;
  }
  return true;
}

/// Stages that were shortened to a time, and the steps that the last one would have with time enough.
struct Fitted {
  std::vector<PlannedStage> stages;
  std::int64_t whole_steps;
};

Fitted fitted_to(std::vector<PlannedStage> whole, const ConversionCosts& costs, double seconds,
                 const FreeChoices& free) {
  std::vector<PlannedStage> fitted = shortened_to(whole, costs, seconds);
  while (free.batch && fitted.back().options.steps < kManySteps && halve_batches(whole))
    fitted = shortened_to(whole, costs, seconds);
  return {std::move(fitted), whole.back().options.steps};
}

template <class Self, class Visitor>
void visit_numbers(Self& options, const Visitor& visitor) {
  visitor("steps", options.steps);
  visitor("learning_rate", options.learning_rate);
  visitor("min_learning_rate", options.min_learning_rate);
  visitor("batch_size", options.batch_size);
  visitor("warmup_steps", options.warmup_steps);
  visitor("evaluations", options.evaluations);
}

struct NumberReader {
  const Json& json;
  void operator()(const char* key, std::int64_t& field) const {
    field = checkpoint::whole_number(json.at(key));
  }
  void operator()(const char* key, double& field) const { field = json.at(key).get<double>(); }
};

}  // namespace

double seconds_of(const std::vector<PlannedStage>& stages, const ConversionCosts& costs) {
  double seconds = 0;
  for (const PlannedStage& planned : stages)
    seconds += static_cast<double>(planned.options.steps) * costs.of_step(planned) +
               static_cast<double>(planned.options.evaluations) * costs.look;
  return seconds;
}

bool fit(std::vector<PlannedStage>& stages, const ConversionCosts& costs, double seconds,
         const FreeChoices& free) {
  if (stages.empty() || seconds_of(stages, costs) <= seconds) return true;
  Fitted fitted = fitted_to(stages, costs, seconds, free);
  const auto is_too_long = [&] { return seconds_of(fitted.stages, costs) > seconds; };
  const std::int64_t enough = std::min(kLeastSteps, stages.back().options.steps);
  if (is_too_long() || fitted.stages.back().options.steps < enough)
    fitted = fitted_to({stages.back()}, costs, seconds, free);
  if (is_too_long()) return false;
  StageOptions& last = fitted.stages.back().options;
  if (free.rate && is_last_kind(fitted.stages.back().stage)) {
    const double share = static_cast<double>(last.steps) / static_cast<double>(fitted.whole_steps);
    last.learning_rate *= std::pow(share, kRatePower);
  }
  stages = std::move(fitted.stages);
  return true;
}

std::string to_json(const std::vector<PlannedStage>& stages) {
  Json list = Json::array();
  for (const PlannedStage& planned : stages) {
    Json& entry = list.emplace_back(Json{{"stage", name(planned.stage)}});
    visit_numbers(planned.options, [&](const char* key, const auto& field) { entry[key] = field; });
  }
  return list.dump();
}

std::vector<PlannedStage> plan_from_json(std::string_view text, const std::string& subject) {
  std::vector<PlannedStage> stages;
  checkpoint::with_json_errors(subject, [&] {
    for (const Json& entry : Json::parse(text)) {
      const auto word = entry.at("stage").get<std::string>();
      const auto* const found = std::ranges::find(kStageNames, word);
      if (found == std::end(kStageNames))
        throw Error(ErrorCode::decode_failed, "there is no stage " + word, subject);
      PlannedStage& planned = stages.emplace_back(
          PlannedStage{static_cast<Stage>(found - std::begin(kStageNames)), {}});
      visit_numbers(planned.options, NumberReader{entry});
      const StageOptions& options = planned.options;
      if (options.steps < 1 || options.batch_size < 1 || options.evaluations < 0 ||
          options.warmup_steps < 0 || !std::isfinite(options.learning_rate))
        throw Error(ErrorCode::decode_failed, "the plan of stage " + word + " is none", subject);
    }
  });
  return stages;
}

}  // namespace hydrascope::model::training
