// hydrascope train: from scratch or fine-tuning, one process or many.
#include "app/command.h"
#include "app/model/model_metadata.h"
#include "app/model/running_model.h"
#include "app/results/json.h"
#include "app/results/report.h"
#include "app/run/local_ranks.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/train/probe.h"
#include "app/train/progress_state.h"
#include "app/train/session.h"
#include "app/train/subject.h"
#include "app/train/training_options.h"
#include "kernels/stopwatch.h"
#include "model/device.h"
#include "model/inference/classifier.h"
#include "model/training/autocast.h"
#include "model/training/classification_task.h"
#include "model/training/low_rank.h"
#include "model/training/parallel/averaging.h"
#include "model/training/parameter_groups.h"
#include "model/training/schedule.h"
#include "model/training/trainer.h"
#include "model/training/training_state.h"
#include "model/transform.h"
#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
namespace training = model::training;

struct TrainRequest : TrainingRequest, TrainOptions {
  model::training::ScheduleOptions schedule = {};  ///< without what the run's length decides
  bool weighs_ponder = false;                      ///< by `--set loss.ponder`
};
/// A dumped configuration holds defaults too.
void refuse_without_teacher(const ParsedOptions& options) {
  using Loss = training::ClassificationOptions;
  for (const Field& field : std::initializer_list<Field>{
           &Loss::distillation_is_hard, &Loss::distillation_weight, &Loss::temperature}) {
    if (options[field].source == Source::command_line && !options.given(&TrainOptions::teacher))
      throw UsageError("there is no teacher", options[field].origin, "`teacher` MODEL");
  }
}

/// Views of several sizes are made of crops and flips to the side alone.
void refuse_beside_sizes(const TrainingRequest& request) {
  const training::AugmentOptions& augment = request.augment;
  for (const auto& [is_on, option] : {std::pair(request.mixup.mixup_alpha > 0, "`mixup`"),
                                      {request.mixup.cutmix_alpha > 0, "`cutmix`"},
                                      {augment.erase_probability > 0, "`reprob`"},
                                      {augment.rand_augment.operations > 0, "`aa`"}})
    if (is_on) throw UsageError("does not go with `sizes`", option);
}

TrainRequest train_request(const ParsedOptions& options) {
  TrainRequest request;
  static_cast<TrainingRequest&>(request) = training_request(options, "train");
  options.fill<TrainOptions>(request);
  options.fill(request.loss, request.schedule);
  request.weighs_ponder = options.given(&model::training::ClassificationOptions::ponder_weight);
  if (!request.sizes.empty()) refuse_beside_sizes(request);
  refuse_without_teacher(options);
  request.loss.mixup = request.mixup;
  request.loss.seed = request.run.seed;
  return request;
}

RunLength length_of(const TrainRequest& request, std::size_t pictures, int world_size) {
  RunLength length;
  length.batch_size = request.batch_size;
  length.accumulation = request.trainer.accumulation;
  length.epochs = request.epochs;
  length.pictures_of_a_step = length.batch_size * length.accumulation * world_size;
  length.steps_per_epoch = static_cast<std::int64_t>(pictures) / length.pictures_of_a_step;
  if (length.steps_per_epoch < 1) {
    throw UsageError("an update takes " + std::to_string(length.pictures_of_a_step) +
                         " pictures, and there are " + std::to_string(pictures),
                     "`batch_size` " + std::to_string(length.batch_size));
  }
  return length;
}

training::ScheduleOptions schedule_of(const TrainRequest& request, const RunLength& length) {
  // DeiT's rule (arXiv 2012.12877, table 9).
  constexpr double kRate = 5e-4;
  constexpr double kPictures = 512;
  constexpr std::int64_t kWarmupEpochs = 5;
  const std::int64_t warmup_epochs =
      request.warmup_epochs.value_or(std::min(kWarmupEpochs, length.epochs - 1));
  if (warmup_epochs >= length.epochs) {
    throw UsageError("of " + std::to_string(length.epochs) + " epochs none would be left",
                     "`warmup_epochs` " + std::to_string(warmup_epochs));
  }
  // timm's defaults.
  constexpr double kWarmupRate = 1e-6;
  constexpr double kMinRate = 1e-5;
  constexpr double kMostOfRate = 0.01;
  training::ScheduleOptions schedule = request.schedule;
  const double rate = request.learning_rate.value_or(
      kRate * static_cast<double>(length.pictures_of_a_step) / kPictures);
  schedule.learning_rate = rate;
  schedule.min_learning_rate =
      std::min(request.min_learning_rate.value_or(std::min(kMinRate, kMostOfRate * rate)), rate);
  schedule.steps = length.steps();
  schedule.warmup_steps = warmup_epochs * length.steps_per_epoch;
  schedule.warmup_learning_rate = std::min(kWarmupRate, rate);
  return schedule;
}

/// The settings that decide the result (`recipe_of`), as a JSON object: what the model is, whether
/// the options or its checkpoint say it, and the teacher by name and SHA-256.
std::string training_recipe(const TrainRequest& request, const model::VitConfig& config,
                            const std::optional<ModelSource>& teacher,
                            model::training::Autocast autocast, int processes) {
  nlohmann::json recipe = nlohmann::json::parse(recipe_of(request, "train", autocast, processes));
  const auto recorded = [](const Field& field) { return recorded_name("train", field); };
  recipe[recorded(&ModelRequest::pos_interp)] = model::name(config.pos_interp);
  recipe.erase(recorded(&ModelRequest::overview));
  if (config.overview) recipe[recorded(&ModelRequest::overview)] = "on";
  if (teacher) recipe[recorded(&TrainOptions::teacher)] = name_and_sha256(teacher->weights.file());
  return recipe.dump();
}

/// Logits of a batch that is normalised for the student, which has its own mean and deviation;
/// empty without a teacher. The teacher looks at the student's pictures as they are; where it was
/// made for another size the user is told. Throws Error(invalid_argument) for a teacher of other
/// classes, or one that cannot look at pictures of the student's size.
model::training::ClassificationTask::Teacher make_teacher(const std::optional<ModelSource>& teacher,
                                                          const TrainingSubject& subject,
                                                          model::training::Autocast autocast,
                                                          c10::Device device,
                                                          const Console& console) {
  if (!teacher) return {};
  const ModelSource& source = *teacher;
  const image::TransformConfig& student = subject.transform.config;
  std::optional<image::Labels> labels;
  if (subject.labels.origin != LabelOrigin::numbers) labels = subject.labels.labels;
  require_same_classes(subject.source, labels, source, "`teacher`");
  const std::int64_t patch = source.config.patch_size;
  if (student.img_size.height % patch != 0 || student.img_size.width % patch != 0) {
    throw UsageError("the teacher's patches of " + std::to_string(patch) +
                         " pixels do not divide the pictures, " + size_text(student.img_size),
                     "`teacher` " + source.name);
  }
  const image::Size own_size{source.config.img_height, source.config.img_width};
  if (own_size != student.img_size) {
    console.note("note: the teacher looks at pictures of " + size_text(student.img_size) +
                 ", it was made for " + size_text(own_size) + " and may know less there");
  }
  model::inference::InferenceOptions wanted;
  wanted.device = device;
  wanted.precision = model::resolve_precision(name(autocast), device);
  const auto classifier =
      std::make_shared<model::Classifier>(source.config, source.weights, wanted);
  const image::TransformConfig own = resolve_transform({}, source).config;
  return [classifier, student, own](const at::Tensor& images) {
    return classifier->engine().logits(image::renormalise(images, student, own));
  };
}

fs::path output_folder(const TrainRequest& request, const ModelSource& source) {
  if (!request.output.file.empty()) return request.output.file;
  std::string name =
      fs::path(source.name).stem().string() + "-" + model::to_text(source.config.attention);
  std::ranges::replace(name, ':', '_');
  return fs::path("output") / "train" / name;
}

/// One run from its options to its last epoch.
class TrainingRun : TrainingSession {
 public:
  explicit TrainingRun(const TrainRequest& request)
      : TrainingSession(request),
        request_(request),
        subject_(open_subject(request, request.held_out)),
        length_(length_of(request, subject_.training.size(), group_->world_size())),
        schedule_(schedule_of(request, length_)),
        autocast_(autocast_of(request, device_)),
        states_(output_folder(request, subject_.source), request.recent_states) {}

  int run();

 private:
  void build_model();
  training::LoaderOptions loader_options();
  /// That the model can look at pictures of each size: some mechanisms are made for one. Throws what
  /// the model throws.
  void try_sizes(const std::vector<image::Size>& sizes);
  /// That a run may begin in the output folder.
  void check_folder() const;
  void resume(const fs::path& file);
  void save();
  /// The best weights, and with `--lora-rank` their adapter.
  void save_best();
  bool go_on();
  [[nodiscard]] std::int64_t updates() const {
    return trainer_->position().step + uncounted_updates_;
  }
  /// The step after `step` at which a state is due, by the interval of states.
  [[nodiscard]] std::int64_t next_state(std::int64_t step) const;
  void take(const training::StepRecord& record);
  /// False when a signal came in the middle: the epoch is to be judged again.
  bool end_epoch(std::int64_t epoch);
  int report();

  const TrainRequest& request_;
  TrainingSubject subject_;
  RunLength length_;
  training::ScheduleOptions schedule_;
  training::Autocast autocast_;
  training::StateFolder states_;
  checkpoint::Metadata about_;
  std::string identity_;  ///< what a resumed run must have in common
  model::VisionTransformer model_{nullptr};
  std::unique_ptr<training::LowRankUpdates> updates_;
  std::unique_ptr<training::Optimizer> optimizer_;
  std::unique_ptr<training::ParameterAverage> average_;
  std::unique_ptr<training::BatchLoader> loader_;
  std::unique_ptr<training::ClassificationTask> task_;
  std::unique_ptr<training::Trainer> trainer_;
  ProgressState progress_state_;
  std::int64_t uncounted_updates_ = 0;
  std::int64_t skipped_steps_ = 0;  ///< since the last epoch's end
  std::int64_t images_ = 0;         ///< shown in this session
  ValidationScore last_score_;
  training::TrainerPosition begin_;  ///< of this session
  Clock::time_point began_ = Clock::now();
};

void TrainingRun::build_model() {
  const ModelSource& source = subject_.source;
  model::seed_generators(run_.seed);
  if (request_.low_rank.rank > 0 && source.random_weights)
    throw UsageError("random weights have to learn themselves",
                     "`lora_rank` " + std::to_string(request_.low_rank.rank),
                     "name a trained model by `model`");
  if (request_.weighs_ponder && !source.config.halting)
    throw UsageError("no token leaves this model", "`set` loss.ponder", "`set` model.halting=on");
  model_ = model::VisionTransformer(source.config);
  if (!source.random_weights) {
    const checkpoint::LoadReport loaded = source.weights.load_into(*model_, source.head);
    for (const std::string& note : describe(loaded)) console_.note("note: " + note);
  }
  model_->to(device_);
  training::share_weights(*model_, *group_);
  model_->train();
  std::vector<training::ParameterGroup> groups =
      training::parameter_groups(*model_, request_.groups);
  if (request_.low_rank.rank > 0)
    updates_ =
        std::make_unique<training::LowRankUpdates>(*model_, groups, request_.low_rank, run_.seed);
  optimizer_ = std::make_unique<training::Optimizer>(std::move(groups), request_.optimizer);
  if (request_.averages) {
    average_ = std::make_unique<training::ParameterAverage>(
        optimizer_->named_parameters(), request_.average_decay, /*warmup=*/false);
  }
}

training::LoaderOptions TrainingRun::loader_options() {
  training::LoaderOptions loader = loader_of(request_, run_, subject_.transform.config);
  loader.sampler.batch_size = length_.batch_size;
  loader.sampler.seed = run_.seed;
  loader.sampler.rank = group_->rank();
  loader.sampler.world_size = group_->world_size();
  loader.sampler.batches_per_epoch = length_.steps_per_epoch * length_.accumulation;
  loader.resolutions = resolutions_of(request_, subject_.transform.config);
  loader.on_failure = unreadable_.report();
  return loader;
}

void TrainingRun::try_sizes(const std::vector<image::Size>& sizes) {
  const at::NoGradGuard no_grad;
  const training::AutocastScope scope(autocast_, device_.type());
  model_->eval();
  for (const image::Size& size : sizes)
    model_->forward(at::zeros({1, 3, size.height, size.width}, device_));
  model_->train();
}

void TrainingRun::check_folder() const {
  std::error_code ignored;
  if (!subject_.source.random_weights) {
    const fs::path from = fs::absolute(subject_.source.weights.file());
    if (fs::equivalent(from.parent_path(), states_.folder(), ignored)) {
      throw UsageError("the model to start from lies in the run's folder", from.string(),
                       "give the run another one (-o)");
    }
  }
  if (fs::exists(states_.best(), ignored) && !resume_.force) {
    throw UsageError("the folder holds a model", states_.best().string(), "`force` replaces it");
  }
  if (!resume_.force) refuse_other_files(states_.folder());
}

bool TrainingRun::go_on() {
  const double limit = request_.max_seconds();
  const bool out_of_time = limit > 0 && seconds_since(began_) >= limit;
  return !stop_requested() && !out_of_time;
}

void TrainingRun::take(const training::StepRecord& record) {
  if (record.steps > 0)
    progress_state_.epoch_loss += record.losses.at("loss") * static_cast<double>(record.steps);
  progress_state_.epoch_steps += record.steps;
  skipped_steps_ += record.skipped_steps;
  images_ += record.images;
  if (!is_first()) return;
  progress_->set_detail(progress_text(record));
  log_->add({updates(), record.epoch, scalars_of(record)});
}

std::int64_t TrainingRun::next_state(std::int64_t step) const {
  const std::int64_t interval = request_.steps_between_states;
  return interval == 0 ? length_.steps() : (step / interval + 1) * interval;
}

void TrainingRun::save() {
  if (!is_first()) return;
  training::TrainingState state;
  state.step = trainer_->position().step;
  state.tensors = training::state_of(*optimizer_, average_.get());
  if (updates_) updates_->settle_into(state.tensors);
  progress_state_.seconds = trainer_->position().seconds;
  progress_state_.updates = updates();
  write_fields(progress_state_, length_, state.fields);
  state.fields[training::kIdentityField] = identity_;
  states_.save(*model_, about_, state);
}

void TrainingRun::save_best() {
  states_.save_best(*model_, about_, trainer_->position().step);
  if (updates_ && updates_->is_adapter())
    updates_->save(states_.folder() / "adapter", subject_.source.name);
}

void TrainingRun::resume(const fs::path& file) {
  const training::TrainingState state = training::load_training_state(file, *model_, identity_);
  optimizer_->load_state(state.tensors);
  if (average_) average_->load_state(state.tensors);
  if (updates_) updates_->load_state(state.tensors);
  progress_state_ = read_fields(state.fields, file.string());
  const std::int64_t step = equivalent_step(state.step, state.fields, length_, file.string());
  uncounted_updates_ = progress_state_.updates - step;
  trainer_->resume({step, progress_state_.seconds});
  group_->barrier();  // all have read it
  if (is_first()) {
    states_.forget_after(state.step);
    // With another number of processes the step has another number.
    if (step != state.step) {
      save();
      states_.keep_only(step);
    }
  }
  console_.note("resumed at step " + std::to_string(step) + " of " +
                std::to_string(length_.steps()) + " from " + file.string());
  const std::int64_t before = pictures_of_a_step(state.fields, file.string());
  if (before != length_.pictures_of_a_step) {
    const std::string rate = "`lr` is " + significant(schedule_.learning_rate, 3);
    console_.note("note: an update takes " + std::to_string(length_.pictures_of_a_step) +
                  " pictures, " + std::to_string(before) + " before; " + rate +
                  (request_.learning_rate ? " as before" : ", in proportion"));
  }
}

bool TrainingRun::end_epoch(std::int64_t epoch) {
  training::Scalars numbers;
  numbers.emplace_back("lr", training::learning_rate(schedule_, trainer_->position().step - 1));
  ProgressState& state = progress_state_;
  const std::int64_t steps = state.epoch_steps;
  numbers.emplace_back("train_loss", steps > 0 ? state.epoch_loss / static_cast<double>(steps)
                                               : std::numeric_limits<double>::quiet_NaN());
  if (average_) average_->swap();
  if (updates_) updates_->settle();
  if (!subject_.validation.empty()) {
    last_score_ = validate(*model_, autocast_, subject_.validation, subject_.transform.config);
    if (last_score_.interrupted) {
      if (average_) average_->swap();
      return false;
    }
    numbers.emplace_back("eval_loss", last_score_.loss);
    numbers.emplace_back("eval_top1", last_score_.top1);
    numbers.emplace_back("eval_top5", last_score_.top5);
  }
  // Without validation the newest is the best there is.
  const bool is_best =
      subject_.validation.empty() || state.is_surpassed_by(last_score_.top1, last_score_.loss);
  if (is_best) {
    state.best_top1 = subject_.validation.empty() ? -1 : last_score_.top1;
    state.best_loss = subject_.validation.empty() ? 0 : last_score_.loss;
    state.best_epoch = epoch;
    if (is_first()) save_best();
  }
  if (average_) average_->swap();
  state.epoch_loss = 0;
  state.epoch_steps = 0;
  state.judged_epochs = epoch + 1;
  const bool is_lost =
      steps == 0 || (!subject_.validation.empty() && !std::isfinite(last_score_.loss));
  if (is_first()) {
    log_->add({updates(), epoch, numbers});
    progress_->hide();
  }
  if (is_lost) {
    throw Error(ErrorCode::failed,
                "after epoch " + std::to_string(epoch + 1) +
                    (steps == 0 ? ", in which no gradient was finite" : "") +
                    " the model is of no use: its loss is not finite",
                "training", "a smaller `lr` or a `clip_grad` may keep it finite");
  }
  if (!is_first()) return true;
  if (const std::int64_t skipped = std::exchange(skipped_steps_, 0); skipped > 0) {
    console_.note("note: " + std::to_string(skipped) +
                  " steps changed nothing: their gradients were not finite");
  }
  std::string line = "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(length_.epochs);
  for (const auto& [name, value] : numbers) line += "  " + name + " " + significant(value, 4);
  console_.note(line + (is_best && !subject_.validation.empty() ? "  (best)" : ""));
  return true;
}

int TrainingRun::report() {
  const std::int64_t unreadable = unreadable_.count(*group_);
  const int code = exit_code_after_stop(unreadable > 0 ? kExitSomeInputsFailed : kExitOk);
  if (!is_first()) return code;
  Report report("hydrascope train");
  report.add("model", subject_.source.name);
  report.add("attention", model::to_text(subject_.source.config.attention));
  report.add("steps", trainer_->position().step);
  report.add("epochs", trainer_->position().step / length_.steps_per_epoch);
  if (progress_state_.best_top1 >= 0) {
    report.add("best_top1", progress_state_.best_top1);
    report.add("best_epoch", progress_state_.best_epoch);  // as metrics.jsonl counts
  }
  const training::TrainerPosition& end = trainer_->position();
  if (end.step > begin_.step) {
    const double seconds = std::max(end.seconds - begin_.seconds, 1e-9);
    report.add("images_per_second", static_cast<double>(images_) / seconds, 1);
  }
  report.add("seconds", end.seconds, 1);
  report.add("device", device_.str());
  report.add("amp_dtype", std::string(name(autocast_)));
  report.add("processes", group_->world_size());
  report.add("complete", trainer_->finished());
  if (unreadable > 0) report.add("unreadable_pictures", unreadable);
  if (progress_state_.best_epoch >= 0) report.add("best", states_.best().string());
  report.add("last", (states_.folder() / "last.safetensors").string());
  report.write(request_.output.format, std::cout);
  if (!trainer_->finished())
    console_.note("note: the run is not complete; `resume` auto goes on with it");
  return code;
}

int TrainingRun::run() {
  for (const std::string& note : subject_.source.notes) console_.note("note: " + note);
  if (!subject_.source.random_weights) subject_.transform.say_assumed(console_);
  report_found(subject_.failed, subject_.notes);
  build_model();
  about_ = describe_descendant(subject_.source, "train", subject_.transform, subject_.labels);
  std::optional<ModelSource> teacher;
  if (!request_.teacher.empty()) teacher = open_model({.word = request_.teacher});
  about_["training"] =
      training_recipe(request_, subject_.source.config, teacher, autocast_, group_->world_size());
  identity_ = identity_of_run("train", about_["training"], about_, subject_.training);
  require_same_on_all(about_["training"], identity_);
  const training::LoaderOptions shown = loader_options();
  try_sizes(shown.resolutions.sizes);
  loader_ = std::make_unique<training::BatchLoader>(subject_.training, shown);
  task_ = std::make_unique<training::ClassificationTask>(
      *model_, request_.loss, make_teacher(teacher, subject_, autocast_, device_, console_),
      group_->rank());
  training::TrainerOptions wanted = request_.trainer;
  wanted.schedule = schedule_;
  wanted.autocast = autocast_;
  wanted.device = device_;
  trainer_ = std::make_unique<training::Trainer>(*task_, *loader_, *optimizer_, average_.get(),
                                                 *group_, wanted);
  if (updates_) trainer_->before_batch = [this] { updates_->enter(); };
  trainer_->on_record = [this](const training::StepRecord& record) { take(record); };
  trainer_->keep_going = [this] {
    progress_->advance();
    return go_on();
  };
  const std::optional<fs::path> state = begin_in(states_.folder(), states_.newest());
  if (state) {
    resume(*state);
  } else {
    check_folder();
    group_->barrier();                // all have seen what is there
    if (is_first()) states_.clear();  // of a run that --force ends
  }
  if (is_first()) {
    log_ = std::make_unique<training::MetricLog>(states_.folder(), state ? updates() : -1);
  }
  console_.note(subject_.about_data + "; " + std::to_string(length_.steps_per_epoch) +
                " steps per epoch, " + std::to_string(length_.pictures_of_a_step) +
                " pictures each" + (request_.sizes.empty() ? "" : " at most"));
  progress_ = std::make_unique<Progress>("train", length_.steps() - trainer_->position().step,
                                         console_.progress, "steps");
  begin_ = trainer_->position();
  began_ = Clock::now();
  bool go_on = true;
  while (go_on) {
    const std::int64_t step = trainer_->position().step;
    const std::int64_t epoch = step / length_.steps_per_epoch;
    if (epoch > progress_state_.judged_epochs && step % length_.steps_per_epoch == 0) {
      go_on = end_epoch(epoch - 1);
      save();
    } else if (trainer_->finished()) {
      break;
    } else {
      trainer_->run(std::min((epoch + 1) * length_.steps_per_epoch, next_state(step)));
      go_on = !trainer_->was_stopped();
      if (!go_on || trainer_->position().step % length_.steps_per_epoch != 0) save();
    }
  }
  progress_->finish();
  const int code = report();
  // torchrun ends all when the first one ends with an exit code.
  group_->barrier();
  return code;
}

}  // namespace

int run_train(const ParsedOptions& options) {
  if (options.given(&TrainOptions::store)) return run_probe(options);
  const TrainRequest request = train_request(options);
  LocalRanks others(local_processes(request.processes, 1));
  const int code = TrainingRun(request).run();
  return others.wait(code);
}

}  // namespace hydrascope::app
