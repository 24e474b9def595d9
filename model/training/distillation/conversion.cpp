#include "model/training/distillation/conversion.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "kernels/stopwatch.h"
#include "model/training/distillation/conversion_stages.h"
#include "model/training/distillation/hydra_start.h"
#include "model/training/distillation/outputs_task.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kFidelityImages = 64;
constexpr const char* kStageField = "conversion.stage";
constexpr const char* kConversionStep = "conversion.step";
constexpr const char* kSecondsField = "conversion.stage_seconds";
constexpr const char* kHistoryField = "conversion.history";
constexpr const char* kStepsDoneField = "conversion.steps_done";

const std::string& entry_of(const checkpoint::Metadata& fields, const std::string& key,
                            const std::string& file) {
  const auto found = fields.find(key);
  if (found == fields.end())
    throw Error(ErrorCode::decode_failed, "this is no state of a conversion: no " + key, file);
  return found->second;
}

}  // namespace

struct Conversion::State {
  Teacher& teacher;
  VisionTransformerImpl& student;
  std::vector<TrainingPicture> pictures;
  const HeldOutImages& held_out;
  ProcessGroup& group;
  checkpoint::Metadata about;
  ConversionStages stages;
  const ConversionOptions& options;
  const ConvertedLayers& layers;
  StateFolder states;
  std::optional<AgreementMeter> meter;  ///< against the compiled teacher

  ConversionHistory history;
  std::int64_t renumbered = 0;              ///< steps taken minus steps numbered
  std::size_t stage = 0;                    ///< position in `stages` of the current one
  TrainerPosition position;                 ///< in that stage
  std::optional<NamedTensors> resumed;      ///< tensors of the optimizer, the average, the updates
  std::unique_ptr<LowRankUpdates> updates;  ///< of the stage, with `low_rank`
  double earlier_seconds = 0;               ///< of the sessions before this one
  Clock::time_point made = Clock::now();
  Clock::time_point started = Clock::now();
  double look_seconds = 0;      ///< of this session's last look at the held-out images
  double fidelity_seconds = 0;  ///< of `errors_of_layers`
  ConversionEvents events;

  State(Teacher& its_teacher, VisionTransformerImpl& its_student,
        std::vector<TrainingPicture> its_pictures, const HeldOutImages& its_held_out,
        ProcessGroup& its_group, std::filesystem::path folder, checkpoint::Metadata its_about,
        ConversionOptions its_options)
      : teacher(its_teacher),
        student(its_student),
        pictures(std::move(its_pictures)),
        held_out(its_held_out),
        group(its_group),
        about(std::move(its_about)),
        stages(teacher, student, group, std::move(its_options)),
        options(stages.options()),
        layers(stages.layers()),
        states(std::move(folder), options.recent_states) {
    history.held_out_images = sum_of_all(group, held_out.count());
    if (history.held_out_images == 0)
      throw Error(ErrorCode::empty, "no images are held out to judge the conversion by");
    if (device().is_cpu())
      teacher.compile(autocast() == Autocast::off ? at::kFloat : at::kBFloat16);
    LoaderOptions shown = options.loader;
    if (options.sizes.steps > 0) shown.resolutions = options.resolutions;
    const bool trains_all = options.sizes.steps > 0 && !options.resolutions.sizes.empty();
    meter.emplace(teacher, held_out, group, device(), autocast(), shown,
                  trains_all || layers.all.empty() ? 0 : options.train_from,
                  options.exits.steps > 0);
    student.train();
  }

  [[nodiscard]] c10::Device device() const { return options.trainer.device; }
  [[nodiscard]] Autocast autocast() const { return options.trainer.autocast; }
  [[nodiscard]] double seconds() const { return earlier_seconds + seconds_since(started); }

  /// Seconds of the process until its limit, without the end of the run and a reserve for steps that take
  /// longer than others.
  [[nodiscard]] double seconds_left() const {
    constexpr double kPlanned = 0.95;  // of the time
    return kPlanned * options.max_seconds - options.seconds_before - seconds_since(made) -
           end_seconds();
  }
  /// The time of the work behind the last look.
  [[nodiscard]] double end_seconds() const;

  void begin();
  /// Whether rank 0 has time left.
  bool has_time() { return number_of_first(group, seconds_left() > 0 ? 1 : 0) != 0; }
  /// The steps of the stage that fit into its share of the time left.
  void choose_steps(Trainer& trainer, double step_seconds);
  void start_hydra(Stage of);
  /// Whether the run goes on to the next stage.
  bool run_stage();
  void evaluate(std::string stage_name, std::int64_t step);
  /// Takes over the steps that a limit of time chose for the history's stages, where steps may have shown other
  /// numbers of pictures.
  void take_chosen_steps();
  void save(NamedTensors tensors);
  void finish(bool is_complete);
  [[nodiscard]] std::vector<double> errors_of_layers() {
    if (layers.all.empty()) return {};
    return attention_errors(teacher, student, layers.all, held_out, kFidelityImages, device(),
                            autocast(), group);
  }
};

void Conversion::State::begin() {
  const Clock::time_point begin = Clock::now();
  const std::vector<double> errors = errors_of_layers();
  fidelity_seconds = seconds_since(begin);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::int64_t layer = layers.all[i];
    history.layers.push_back(
        {layer, student.config().attention_of(layer).mechanism, errors[i], errors[i]});
  }
  evaluate("start", 0);
}

void Conversion::State::start_hydra(Stage of) {
  if (stages.fresh().hydra.empty()) return;
  LoaderOptions chosen = stages.loader(of);
  chosen.cache_bytes = 0;
  BatchLoader loader(pictures, chosen);
  const auto images = [&](std::int64_t index) -> std::optional<at::Tensor> {
    end_if_stopped(group);
    if (index == 0) loader.seek(0, 0);
    if (index == options.hydra_start_batches) return std::nullopt;
    return loader.next().images.to(device());
  };
  start_hydra_layers(teacher, student, stages.fresh().hydra, images, group);
  evaluate("hydra start", 0);
}

void Conversion::State::evaluate(std::string stage_name, std::int64_t step) {
  const Clock::time_point begin = Clock::now();
  if (updates) updates->settle();
  const Agreement agreement = meter->measure(student);
  look_seconds = seconds_since(begin);
  history.evaluations.push_back({std::move(stage_name), step, seconds(), agreement});
  const bool is_best = history.evaluations.size() == 1 ||
                       agreement.is_better_than(history.best_evaluation().agreement);
  if (is_best) {
    history.best = static_cast<std::int64_t>(history.evaluations.size()) - 1;
    if (group.is_first()) states.save_best(student, about, stages.steps_before(stage) + step);
  }
  if (events.on_evaluation)
    events.on_evaluation(history.evaluations.back(), stages.steps_before(stage) + step, is_best);
}

double Conversion::State::end_seconds() const {
  const double of_a_picture = look_seconds / static_cast<double>(history.held_out_images);
  return fidelity_seconds + options.seconds_after +
         of_a_picture * static_cast<double>(options.pictures_after);
}

void Conversion::State::choose_steps(Trainer& trainer, double step_seconds) {
  const Stage current = stages.all()[stage];
  const std::int64_t whole = options.of(current).steps;
  const double seconds =
      (seconds_left() - look_seconds) * time_share(std::span(stages.all()).subspan(stage));
  const std::int64_t steps = number_of_first(
      group, steps_within(seconds, step_seconds, look_seconds, options.of(current)));
  if (steps < whole) {
    stages.shorten(current, steps);
    trainer.set_steps(steps, options.of(current).warmup_steps);
    history.stages.back().planned_steps = steps;
    history.stages.back().pictures_of_a_step = stages.pictures_of_a_step(current);
  }
  if (events.on_steps) events.on_steps(current, steps, whole);
}

void Conversion::State::take_chosen_steps() {
  for (const StageSummary& begun : history.stages) {
    const auto at = std::ranges::find(stages.all(), begun.stage, [](Stage of) { return name(of); });
    if (begun.pictures_of_a_step == 0 || at == stages.all().end()) continue;
    const double shown =
        static_cast<double>(begun.planned_steps) * static_cast<double>(begun.pictures_of_a_step);
    const double steps = shown / static_cast<double>(stages.pictures_of_a_step(*at));
    const auto whole = static_cast<double>(options.of(*at).steps);
    stages.shorten(*at, std::llround(std::clamp(steps, 1.0, whole)));
  }
}

void Conversion::State::save(NamedTensors tensors) {
  if (updates) updates->settle_into(tensors);
  if (!group.is_first()) return;
  TrainingState state;
  state.step = stages.steps_before(stage) + position.step;
  state.tensors = std::move(tensors);
  history.seconds = seconds();
  state.fields[kIdentityField] = options.identity;
  state.fields[kStageField] = std::to_string(stage);
  state.fields[kConversionStep] = std::to_string(position.step);
  state.fields[kSecondsField] = to_field(position.seconds);
  state.fields[kStepsDoneField] = std::to_string(state.step + renumbered);
  state.fields[kHistoryField] = to_json(history);
  states.save(student, about, state);
}

bool Conversion::State::run_stage() {
  if (options.max_seconds > 0 && position.step == 0 && !has_time()) {
    if (stage == 0) save({});
    return false;
  }
  const Stage current = stages.all()[stage];
  const StageOptions& chosen = options.of(current);
  const std::string stage_name(name(current));
  const std::unique_ptr<TrainingTask> task = stages.make_task(current);
  BatchLoader loader(pictures, stages.loader(current));
  std::vector<ParameterGroup> groups = stages.parameters(current);
  updates = stages.updates(current, groups);
  Optimizer optimizer(std::move(groups), options.optimizer);
  std::unique_ptr<ParameterAverage> average;
  if (current >= Stage::finetune && options.average_decay > 0)
    average = std::make_unique<ParameterAverage>(optimizer.named_parameters(),
                                                 options.average_decay, true);
  Trainer trainer(*task, loader, optimizer, average.get(), group, stages.trainer(current));
  if (resumed) {
    optimizer.load_state(*resumed);
    if (average) average->load_state(*resumed);
    if (updates) updates->load_state(*resumed);
    resumed.reset();
  } else {
    history.stages.push_back({stage_name, chosen.steps, 0, 0, 0, false});
  }
  trainer.resume(position);
  if (updates) trainer.before_batch = [this] { updates->enter(); };
  StageSummary& summary = history.stages.back();

  enum Answer : std::int64_t { go_on, stop, out_of_time };
  std::int64_t answer = go_on;
  trainer.on_record = [&](const StepRecord& record) {
    summary.images += record.images;
    if (events.on_record)
      events.on_record(current, stages.steps_before(stage) + record.step, record);
  };
  trainer.keep_going = [&] {
    if (events.keep_going && !events.keep_going())
      answer = stop;
    else if (options.max_seconds > 0 &&
             options.seconds_before + seconds_since(made) > options.max_seconds)
      answer = out_of_time;
    return answer == go_on;
  };
  if (events.on_stage)
    events.on_stage({current, stage + 1, stages.all().size(), position.step, chosen.steps});

  // Looks at the held-out images at steps that depend only on the options and on the number of steps.
  const auto look_after = [&](std::int64_t step) {
    const std::int64_t looks = std::clamp<std::int64_t>(chosen.evaluations, 1, chosen.steps);
    const std::int64_t done = step * looks / chosen.steps;
    return ((done + 1) * chosen.steps + looks - 1) / looks;
  };
  const auto state_after = [&](std::int64_t step) {
    const std::int64_t interval = options.steps_between_states;
    return interval == 0 ? chosen.steps : (step / interval + 1) * interval;
  };
  const auto give_up = [&](std::string why) {
    history.failure = std::move(why);
    summary.ended_early = true;
    return false;
  };
  // A run that was stopped within a look begins with it.
  const auto is_this = [&](const Evaluation& one) {
    return one.stage == stage_name && one.step == position.step;
  };
  bool owes_look = position.step > 0 && look_after(position.step - 1) == position.step &&
                   std::ranges::none_of(history.evaluations, is_this);
  // With a limit of time the second step is measured: the first one allocates, and waits for the first pictures.
  constexpr std::int64_t kMeasuredSteps = 2;
  std::int64_t unmeasured =
      options.max_seconds > 0 && position.step < kMeasuredSteps && summary.pictures_of_a_step == 0
          ? kMeasuredSteps
          : 0;
  while (owes_look || !trainer.finished()) {
    const std::int64_t first = trainer.position().step;
    const std::int64_t next_look = std::exchange(owes_look, false) ? first : look_after(first);
    const std::int64_t next_state = state_after(first);
    const double seconds_before = trainer.position().seconds;
    try {
      trainer.run(std::min({next_look, next_state, unmeasured > 0 ? first + 1 : chosen.steps}));
    } catch (const NotFiniteError& error) {
      return give_up(error.what());
    }
    position = trainer.position();
    summary.steps = position.step;
    summary.seconds = position.seconds;
    answer = number_of_first(group, answer);
    if (unmeasured > 0 && position.step > first && --unmeasured == 0 && answer == go_on &&
        !trainer.finished())
      choose_steps(trainer, position.seconds - seconds_before);
    if (position.step < next_look && answer != out_of_time) {
      if (answer == stop || position.step == next_state) save(state_of(optimizer, average.get()));
      if (answer == stop) return false;
      continue;
    }
    // A stage without looks.
    if (chosen.evaluations == 0 && answer == go_on) continue;
    if (average) average->swap();
    bool is_stopped = false;
    try {
      evaluate(stage_name, position.step);
    } catch (const Stopped&) {
      is_stopped = true;
    }
    if (average) average->swap();
    if (is_stopped) {
      save(state_of(optimizer, average.get()));
      return false;
    }
    if (!std::isfinite(history.evaluations.back().agreement.distance()))
      return give_up("the model's outputs are not finite after " + stage_name + " " +
                     std::to_string(position.step));
    if (!trainer.finished()) {
      save(state_of(optimizer, average.get()));
      if (answer != go_on) return false;
    }
  }
  // The next stage starts from the averages, which were judged.
  if (average) average->swap();
  if (updates) updates->settle();
  updates.reset();
  ++stage;
  position = {};
  save({});
  return answer == go_on;
}

void Conversion::State::finish(bool is_complete) {
  updates.reset();  // of a stage that was stopped
  history.is_complete = is_complete;
  history.seconds = seconds();
  if (group.is_first()) states.name_best();
  group.barrier();  // rank 0 has written the best weights
  load_weights(states.best(), student);
  std::vector<double> errors(history.layers.size(), std::numeric_limits<double>::quiet_NaN());
  try {
    errors = errors_of_layers();
  } catch (const Stopped&) {
    // They are not known.
  }
  for (std::size_t i = 0; i < errors.size(); ++i) history.layers[i].after = errors[i];
}

Conversion::Conversion(Teacher& teacher, VisionTransformerImpl& student,
                       std::vector<TrainingPicture> pictures, const HeldOutImages& held_out,
                       ProcessGroup& group, std::filesystem::path folder,
                       checkpoint::Metadata about, ConversionOptions options)
    : state_(std::make_unique<State>(teacher, student, std::move(pictures), held_out, group,
                                     std::move(folder), std::move(about), std::move(options))) {}

Conversion::~Conversion() = default;

std::optional<std::filesystem::path> Conversion::newest_state() const {
  return state_->states.newest();
}

std::int64_t Conversion::planned_steps() const {
  return state_->stages.steps_before(state_->stages.all().size());
}

void Conversion::forget_states() {
  state_->group.barrier();  // the others have seen what is there
  if (state_->group.is_first()) state_->states.clear();
}

Resumption Conversion::resume(const std::filesystem::path& file) {
  State& state = *state_;
  TrainingState loaded = load_training_state(file, state.student, state.options.identity);
  const std::string name = file.string();
  const std::int64_t stage = integer_field(loaded.fields, kStageField, name);
  state.position = {integer_field(loaded.fields, kConversionStep, name),
                    number_field(loaded.fields, kSecondsField, name)};
  state.history = history_from_json(entry_of(loaded.fields, kHistoryField, name), name);
  ConversionHistory& history = state.history;
  const bool is_within = state.position.step > 0;
  if (stage < 0 || stage > std::ssize(state.stages.all()) || state.position.step < 0 ||
      history.layers.size() != state.layers.all.size() ||
      (is_within && (history.stages.empty() || stage == std::ssize(state.stages.all()))))
    throw Error(ErrorCode::decode_failed, "the state contradicts itself", name);
  state.stage = static_cast<std::size_t>(stage);
  state.earlier_seconds = history.seconds;
  state.take_chosen_steps();
  if (is_within) {
    // Other processes have other steps: here the steps at which the same pictures have been seen.
    const std::int64_t steps = state.options.of(state.stages.all()[state.stage]).steps;
    std::int64_t& planned = history.stages.back().planned_steps;
    if (planned < 1) throw Error(ErrorCode::decode_failed, "the state's stage has no steps", name);
    // A longer stage would leave no room for products of steps.
    if (planned > std::numeric_limits<std::int32_t>::max() || state.position.step > planned)
      throw Error(ErrorCode::decode_failed, "the state is beyond the end of its stage", name);
    const auto renumber = [&](std::int64_t& step) {
      step = std::min(std::clamp(step, std::int64_t{0}, planned) * steps / planned, steps - 1);
    };
    if (planned != steps) {
      const std::string& of_stage = history.stages.back().stage;
      for (Evaluation& look : history.evaluations)
        if (look.stage == of_stage) renumber(look.step);
      renumber(state.position.step);
      planned = steps;
    }
    std::int64_t& pictures = history.stages.back().pictures_of_a_step;
    if (pictures != 0) pictures = state.stages.pictures_of_a_step(state.stages.all()[state.stage]);
  }
  const std::int64_t step = state.stages.steps_before(state.stage) + state.position.step;
  // Older versions' files lack this field.
  const std::int64_t steps_done = loaded.fields.contains(kStepsDoneField)
                                      ? integer_field(loaded.fields, kStepsDoneField, name)
                                      : loaded.step;
  state.renumbered = steps_done - step;
  state.group.barrier();  // all have read it
  if (state.group.is_first()) state.states.forget_after(loaded.step);
  if (step != loaded.step) {
    state.save(loaded.tensors);
    if (state.group.is_first()) state.states.keep_only(step);
  }
  if (is_within) state.resumed = std::move(loaded.tensors);
  return {step, steps_done};
}

const ConversionHistory& Conversion::run(const ConversionEvents& events) {
  State& state = *state_;
  state.events = events;
  state.started = Clock::now();
  if (state.history.evaluations.empty()) {
    state.begin();
    state.start_hydra(state.stages.all().empty() ? Stage::outputs : state.stages.all().front());
  }
  while (state.stage < state.stages.all().size() && state.run_stage()) {
  }
  state.finish(/*is_complete=*/state.stage == state.stages.all().size());
  return state.history;
}

}  // namespace hydrascope::model::training
