#include "model/training/trainer.h"

#include "kernels/error.h"
#include "kernels/stopwatch.h"
#include "model/device.h"
#include "model/training/parallel/averaging.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

/// Numbers of a step, or their sums over several.
using Sums = std::map<std::string, double>;

void add(Sums& sums, const Sums& more) {
  for (const auto& [name, value] : more) sums[name] += value;
}

/// Means over `steps` and the ranks.
Sums means_of(const Sums& sums, std::int64_t steps, ProcessGroup& group) {
  if (sums.empty()) return {{"loss", std::numeric_limits<double>::quiet_NaN()}};
  std::vector<double> values;
  for (const auto& [name, sum] : sums) values.push_back(sum);
  at::Tensor all = at::tensor(values, at::kDouble);
  group.sum({all});
  all = all / static_cast<double>(steps * group.world_size());
  const double* value = all.const_data_ptr<double>();
  Sums means;
  for (const auto& [name, sum] : sums) means[name] = *value++;
  return means;
}

}  // namespace

struct Trainer::State {
  TrainingTask& task;
  BatchLoader& loader;
  Optimizer& optimizer;
  ParameterAverage* average;
  ProcessGroup& group;
  TrainerOptions options;
  std::vector<at::Tensor> parameters;
  TrainerPosition position;
  bool loader_is_there = false;  ///< at the position's batch
  bool was_stopped = false;
  int bad_steps = 0;  ///< in a row

  // Since the last record.
  Sums sums;
  std::int64_t steps = 0;  ///< steps that changed the weights; the sums are over these
  std::int64_t skipped_steps = 0;
  std::int64_t images = 0;
  double gradient_norm = 0;
  Clock::time_point started = Clock::now();

  State(TrainingTask& its_task, BatchLoader& its_loader, Optimizer& its_optimizer,
        ParameterAverage* its_average, ProcessGroup& its_group, TrainerOptions its_options)
      : task(its_task),
        loader(its_loader),
        optimizer(its_optimizer),
        average(its_average),
        group(its_group),
        options(std::move(its_options)),
        parameters(optimizer.parameters()) {
    group.broadcast(parameters);
  }

  /// Adds the gradients and the numbers of one batch.
  void accumulate(Sums& of_step, const std::function<void()>& before_batch) {
    Batch batch = loader.next();
    images += batch.images.size(0);
    batch.images = batch.images.to(options.device);
    if (batch.views.defined()) batch.views = batch.views.to(options.device);
    if (batch.targets.defined()) batch.targets = batch.targets.to(options.device);
    const double weight = 1.0 / static_cast<double>(options.accumulation);
    if (before_batch) before_batch();
    const StepLoss cost = task.accumulate(batch, {position.step, weight, options.autocast});
    of_step["loss"] += cost.loss.item<double>() * weight;
    for (const auto& [name, value] : cost.parts) of_step[name] += value.item<double>() * weight;
  }

  void update(const std::function<void()>& before_batch) {
    // A step draws the same numbers in a resumed run as in a run without a break.
    constexpr std::uint64_t kStepsApart = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
    seed_generators(options.seed + kStepsApart * static_cast<std::uint64_t>(position.step) +
                    static_cast<std::uint64_t>(group.rank()));
    optimizer.zero_grad();
    Sums of_step;
    for (std::int64_t part = 0; part < options.accumulation; ++part)
      accumulate(of_step, before_batch);
    average_gradients(parameters, group);
    // All ranks hold the same gradients and so skip the same steps.
    const double norm = clip_gradients(parameters, options.clip_norm);
    if (std::isfinite(norm)) {
      optimizer.step(learning_rate(options.schedule, position.step));
      if (average != nullptr) average->update();
      bad_steps = 0;
      add(sums, of_step);
      gradient_norm = norm;
      ++steps;
    } else {
      skip();
    }
    ++position.step;
  }

  void skip() {
    constexpr int kMostInARow = 10;
    ++skipped_steps;
    if (++bad_steps < kMostInARow) return;
    throw NotFiniteError(ErrorCode::failed,
                         "the gradients were not finite in " + std::to_string(bad_steps) +
                             " steps in a row, the last of them step " +
                             std::to_string(position.step + 1),
                         "training", "a smaller `lr` or a `clip_grad` may keep them finite");
  }

  StepRecord take_record() {
    StepRecord record;
    record.step = position.step;
    record.steps = steps;
    record.skipped_steps = skipped_steps;
    record.epoch = (position.step * options.accumulation - 1) /
                   std::max<std::int64_t>(1, loader.batches_per_epoch());
    record.learning_rate = learning_rate(options.schedule, position.step - 1);
    record.gradient_norm = gradient_norm;
    record.losses = means_of(sums, steps, group);
    const double elapsed = seconds_since(started);
    record.images = images * group.world_size();
    record.images_per_second = static_cast<double>(record.images) / std::max(elapsed, 1e-9);
    record.wait_share = loader.take_wait_seconds() / std::max(elapsed, 1e-9);
    forget_record();
    return record;
  }

  void forget_record() {
    sums = {};
    steps = 0;
    skipped_steps = 0;
    images = 0;
    started = Clock::now();
  }
};

Trainer::Trainer(TrainingTask& task, BatchLoader& loader, Optimizer& optimizer,
                 ParameterAverage* average, ProcessGroup& group, TrainerOptions options)
    : state_(std::make_unique<State>(task, loader, optimizer, average, group, std::move(options))) {
  validate(state_->options.schedule);
}

Trainer::~Trainer() = default;

void Trainer::resume(const TrainerPosition& position) {
  state_->position = position;
  state_->loader_is_there = false;
}

const TrainerPosition& Trainer::position() const noexcept { return state_->position; }

bool Trainer::was_stopped() const noexcept { return state_->was_stopped; }

bool Trainer::finished() const noexcept {
  return state_->position.step >= state_->options.schedule.steps;
}

void Trainer::set_steps(std::int64_t steps, std::int64_t warmup_steps) {
  state_->options.schedule.warmup_steps = warmup_steps;
  state_->options.schedule.steps = std::max({steps, state_->position.step, std::int64_t{1}});
}

std::int64_t Trainer::run(std::int64_t until) {
  State& state = *state_;
  until = std::min(until, state.options.schedule.steps);
  if (!state.loader_is_there) {
    const std::int64_t batches = state.position.step * state.options.accumulation;
    const std::int64_t per_epoch = state.loader.batches_per_epoch();
    state.loader.seek(batches / per_epoch, batches % per_epoch);
    state.loader_is_there = true;
  }
  state.loader.take_wait_seconds();
  state.forget_record();
  const std::int64_t first = state.position.step;
  state.was_stopped = false;
  bool stops = false;
  const auto record_steps = [&] {
    const StepRecord record = state.take_record();
    if (on_record) on_record(record);
  };
  while (!state.was_stopped && state.position.step < until) {
    const Clock::time_point start = Clock::now();
    state.update(before_batch);
    if (state.position.step % state.options.log_every == 0) record_steps();
    state.position.seconds += seconds_since(start);
    stops = stops || (keep_going && !keep_going());
    state.was_stopped = number_of_first(state.group, stops ? 1 : 0) != 0;
  }
  if (state.steps + state.skipped_steps > 0) record_steps();
  return state.position.step - first;
}

}  // namespace hydrascope::model::training
