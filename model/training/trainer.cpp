#include "model/training/trainer.h"

#include "kernels/error.h"
#include "kernels/stopwatch.h"
#include "model/device.h"
#include "model/training/parallel/gradient_reducer.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace hydrascope::model::training {
namespace {

/// Sums of the numbers between two records, on the device: reading them every step would make a GPU
/// wait.
class Sums {
 public:
  void add(const std::string& name, const at::Tensor& value, double weight) {
    const at::Tensor weighted = value.detach().to(at::kDouble) * weight;
    const auto [entry, is_new] = sums_.try_emplace(name, weighted);
    if (!is_new) entry->second += weighted;
  }
  void add(Sums&& others) {
    for (const auto& [name, sum] : others.sums_) add(name, sum, 1);
    others.sums_.clear();
  }
  /// Means over `steps` and the ranks.
  std::map<std::string, double> take_means(std::int64_t steps, ProcessGroup& group) {
    std::map<std::string, double> means;
    if (sums_.empty()) return {{"loss", std::numeric_limits<double>::quiet_NaN()}};
    std::vector<at::Tensor> values;
    for (const auto& [name, sum] : sums_) values.push_back(sum.reshape({1}));
    at::Tensor all = at::cat(values);
    group.sum({all});
    all = all.cpu() / static_cast<double>(steps * group.world_size());
    const double* value = all.const_data_ptr<double>();
    for (const auto& [name, sum] : sums_) means[name] = *value++;
    sums_.clear();
    return means;
  }

 private:
  std::map<std::string, at::Tensor> sums_;
};

/// What a step leaves to be looked at when its gradients' norm is on the host.
struct Unsettled {
  at::Tensor norm;  ///< float64 scalar on the host, once `copied` has happened
  std::optional<c10::Event> copied;
  Sums sums;
  std::int64_t step = 0;
};

/// Starts the way of `norm` to the host.
Unsettled on_its_way(const at::Tensor& norm) {
  if (norm.is_cpu()) return {norm, {}, {}, 0};
  Unsettled reading;
  reading.norm = at::empty({}, at::TensorOptions(at::kDouble).pinned_memory(true));
  reading.norm.copy_(norm, /*non_blocking=*/true);
  reading.copied.emplace(norm.device().type());
  reading.copied->record(
      c10::impl::VirtualGuardImpl(norm.device().type()).getStream(norm.device()));
  return reading;
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
  GradientReducer reducer;
  TrainerPosition position;
  bool loader_is_there = false;  ///< at the position's batch
  bool was_stopped = false;
  int bad_steps = 0;
  bool reads_late;
  std::optional<Unsettled> unsettled;  ///< the last step

  // Since the last record.
  Sums sums;
  std::int64_t steps = 0;          ///< that changed the weights: of the others nothing is recorded
  std::int64_t skipped_steps = 0;  ///< the others
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
        parameters(optimizer.parameters()),
        reducer(optimizer.named_parameters(), group),
        reads_late(options.reads_late || options.device.is_cuda()) {}

  /// Adds the gradients of one batch.
  void accumulate(bool exchange, Sums& of_step) {
    Batch batch = loader.next();
    images += batch.images.size(0);
    batch.images = batch.images.to(options.device, /*non_blocking=*/true);
    if (batch.views.defined()) batch.views = batch.views.to(options.device, /*non_blocking=*/true);
    if (batch.targets.defined())
      batch.targets = batch.targets.to(options.device, /*non_blocking=*/true);
    const double weight = 1.0 / static_cast<double>(options.accumulation);
    StepLoss cost;
    {
      const AutocastScope scope(options.autocast, options.device.type());
      cost = task.loss(batch, position.step);
    }
    reducer.begin(exchange);
    (cost.loss * weight).backward();
    of_step.add("loss", cost.loss, weight);
    for (const auto& [name, value] : cost.parts) of_step.add(name, value, weight);
  }

  void update() {
    // A step draws the same numbers whether the run came here or was resumed here.
    constexpr std::uint64_t kStepsApart = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
    seed_generators(options.seed + kStepsApart * static_cast<std::uint64_t>(position.step) +
                    static_cast<std::uint64_t>(group.rank()));
    optimizer.zero_grad();
    Sums of_step;
    for (std::int64_t part = 1; part <= options.accumulation; ++part)
      accumulate(/*exchange=*/part == options.accumulation, of_step);
    reducer.finish();
    settle();
    // The same on all ranks, which hold the same gradients: they skip the same steps.
    const at::Tensor norm = clip_gradients(parameters, options.clip_norm);
    unsettled = on_its_way(norm);
    unsettled->sums = std::move(of_step);
    unsettled->step = position.step;
    const double rate = learning_rate(options.schedule, position.step);
    if (reads_late) {
      const at::Tensor skip = norm.isfinite().logical_not().to(at::kFloat);
      optimizer.step(rate, skip);
      if (average != nullptr) average->update(skip);
    } else if (settle()) {
      optimizer.step(rate);
      if (average != nullptr) average->update();
    }
    ++position.step;
    if (options.check_ranks_every > 0 && position.step % options.check_ranks_every == 0)
      reducer.check_equal();
  }

  /// Takes the last step into account, or not: whether its gradients were finite.
  bool settle() {
    if (!unsettled) return true;
    Unsettled last = std::move(*unsettled);
    unsettled.reset();
    if (last.copied) last.copied->synchronize();
    const double norm = last.norm.item<double>();
    if (std::isfinite(norm)) {
      bad_steps = 0;
      sums.add(std::move(last.sums));
      gradient_norm = norm;
      ++steps;
      return true;
    }
    if (reads_late && average != nullptr) average->forget_update();
    ++skipped_steps;
    if (++bad_steps < options.most_bad_steps) return false;
    throw NotFiniteError(ErrorCode::failed,
                         "the gradients were not finite in " + std::to_string(bad_steps) +
                             " steps in a row, the last of them step " +
                             std::to_string(last.step + 1),
                         "training", "a smaller `lr` or a `clip_grad` may keep them finite");
  }

  /// Whether rank 0 wants to stop. Several GPUs would wait for the answer: they ask now and then.
  bool first_stops(bool mine) {
    constexpr std::int64_t kAskEvery = 10;
    const bool waits = group.world_size() > 1 && options.device.is_cuda();
    if (waits && position.step % kAskEvery != 0) return false;
    return number_of_first(group, options.device, mine ? 1 : 0) != 0;
  }

  StepRecord take_record() {
    settle();
    StepRecord record;
    record.step = position.step;
    record.steps = steps;
    record.skipped_steps = skipped_steps;
    record.epoch = (position.step * options.accumulation - 1) /
                   std::max<std::int64_t>(1, loader.batches_per_epoch());
    record.learning_rate = learning_rate(options.schedule, position.step - 1);
    record.gradient_norm = gradient_norm;
    record.losses = sums.take_means(steps, group);
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
    state.update();
    if (state.position.step % state.options.log_every == 0) record_steps();
    state.position.seconds += seconds_since(start);
    stops = stops || (keep_going && !keep_going());
    state.was_stopped = state.first_stops(stops);
  }
  state.settle();
  if (state.steps + state.skipped_steps > 0) record_steps();
  return state.position.step - first;
}

}  // namespace hydrascope::model::training
