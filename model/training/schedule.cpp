#include "model/training/schedule.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace hydrascope::model::training {
namespace {

struct Decay {
  std::string_view kind;
  double (*rate)(const ScheduleOptions&, std::int64_t step);
};

double between(const ScheduleOptions& options, double share) {
  return options.min_learning_rate + (options.learning_rate - options.min_learning_rate) * share;
}

double progress(const ScheduleOptions& options, std::int64_t step) {
  return static_cast<double>(step) / static_cast<double>(options.steps);
}

constexpr std::array kDecays{
    Decay{"cosine",
          [](const ScheduleOptions& options, std::int64_t step) {
            return between(options, (1 + std::cos(std::numbers::pi * progress(options, step))) / 2);
          }},
    Decay{"linear",
          [](const ScheduleOptions& options, std::int64_t step) {
            return between(options, 1 - progress(options, step));
          }},
    Decay{"constant",
          [](const ScheduleOptions& options, std::int64_t) { return options.learning_rate; }},
};

const Decay& decay_of(const ScheduleOptions& options) {
  const auto found = std::ranges::find(kDecays, options.kind, &Decay::kind);
  if (found != kDecays.end()) return *found;
  std::string known;
  for (const Decay& decay : kDecays) known += (known.empty() ? "" : ", ") + std::string(decay.kind);
  throw Error(ErrorCode::invalid_argument,
              "expected one of " + known + ", found '" + options.kind + "'", "schedule");
}

void require(bool holds, const std::string& what, const std::string& field) {
  if (!holds) throw Error(ErrorCode::invalid_argument, what, field);
}

}  // namespace

void validate(const ScheduleOptions& options) {
  static_cast<void>(decay_of(options));
  for (const auto& [value, field] : {std::pair{options.learning_rate, "learning rate"},
                                     std::pair{options.min_learning_rate, "least learning rate"},
                                     std::pair{options.warmup_learning_rate, "warm-up's rate"}}) {
    require(std::isfinite(value) && value >= 0,
            "expected a number of 0 or more, found " + shortest_number(value), field);
  }
  require(options.steps > 0, "expected 1 or more, found " + std::to_string(options.steps), "steps");
  require(options.warmup_steps >= 0,
          "expected 0 or more, found " + std::to_string(options.warmup_steps), "warm-up steps");
}

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  step = std::min(step, options.steps - 1);
  if (step < options.warmup_steps) {
    const double slope = (options.learning_rate - options.warmup_learning_rate) /
                         static_cast<double>(options.warmup_steps);
    return options.warmup_learning_rate + slope * static_cast<double>(step);
  }
  return decay_of(options).rate(options, step);
}

}  // namespace hydrascope::model::training
