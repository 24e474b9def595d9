// hydrascope train: from scratch or fine-tuning, one process or many.
#include "app/command.h"
#include "app/console.h"
#include "app/json_text.h"
#include "app/model_metadata.h"
#include "app/progress.h"
#include "app/report.h"
#include "app/signal_stop.h"
#include "app/stopwatch.h"
#include "app/train/options.h"
#include "app/train/subject.h"
#include "app/train/validation.h"
#include "app/training_options.h"
#include "kernels/error.h"
#include "model/device.h"
#include "model/inference/classifier.h"
#include "model/training/classification_task.h"
#include "model/training/log/metric_log.h"
#include "model/training/parallel/launch_environment.h"
#include "model/training/parallel/process_group.h"
#include "model/training/parameter_groups.h"
#include "model/training/trainer.h"
#include "model/training/training_state.h"
#include "model/vision_transformer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
namespace training = model::training;

/// Steps and pictures of a run, from epochs.
struct Length {
  std::int64_t batch_size = 1;  ///< of one process
  std::int64_t accumulation = 1;
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 1;
  std::int64_t pictures_of_a_step = 1;  ///< of all processes
  [[nodiscard]] std::int64_t steps() const { return steps_per_epoch * epochs; }
};

Length length_of(const ParsedOptions& options, std::size_t pictures, int world_size) {
  Length length;
  length.batch_size = options.integer("batch-size");
  length.accumulation = options.integer("grad-accum-steps");
  length.epochs = options.integer("epochs");
  length.pictures_of_a_step = length.batch_size * length.accumulation * world_size;
  length.steps_per_epoch =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(pictures) / length.pictures_of_a_step);
  return length;
}

training::ScheduleOptions schedule_of(const ParsedOptions& options, const Length& length) {
  // DeiT's rule (arXiv 2012.12877, table 9).
  constexpr double kRate = 5e-4;
  constexpr double kPictures = 512;
  training::ScheduleOptions schedule;
  schedule.kind = options.text("sched");
  schedule.learning_rate = options.given("lr")
                               ? options.number("lr")
                               : kRate * static_cast<double>(length.pictures_of_a_step) / kPictures;
  schedule.min_learning_rate = std::min(options.number("min-lr"), schedule.learning_rate);
  schedule.steps = length.steps();
  schedule.warmup_steps =
      std::min(options.integer("warmup-epochs"), length.epochs - 1) * length.steps_per_epoch;
  schedule.warmup_learning_rate = std::min(options.number("warmup-lr"), schedule.learning_rate);
  schedule.decay_rate = options.number("decay-rate");
  schedule.decay_steps = options.integer("decay-epochs") * length.steps_per_epoch;
  for (const std::int64_t epoch : options.integers("decay-milestones"))
    schedule.milestones.push_back(epoch * length.steps_per_epoch);
  return schedule;
}

training::ParameterGroupOptions groups_of(const ParsedOptions& options) {
  training::ParameterGroupOptions groups;
  groups.weight_decay = options.number("weight-decay");
  groups.layer_decay = options.number("layer-decay");
  groups.freeze = options.texts("freeze");
  groups.train = options.texts("train-only");
  return groups;
}

/// `--teacher`: logits of a batch that is normalised for the student.
std::function<at::Tensor(const at::Tensor&)> make_teacher(const ParsedOptions& options,
                                                          const image::TransformConfig& student,
                                                          std::int64_t num_classes,
                                                          c10::Device device) {
  const std::string& word = options.text("teacher");
  if (word.empty()) return {};
  const ModelSource source = open_other_model(word);
  if (source.config.num_classes != num_classes) {
    throw Error(ErrorCode::invalid_argument,
                "the teacher has " + std::to_string(source.config.num_classes) +
                    " classes, the model " + std::to_string(num_classes),
                "--teacher " + word);
  }
  model::ClassifierOptions wanted;
  wanted.device = device;
  wanted.precision = model::resolve_precision(
      autocast_of(options, device) == training::Autocast::off ? "float32" : "bfloat16", device);
  const auto classifier =
      std::make_shared<model::Classifier>(source.config, source.weights, wanted);
  const CommandSpec plain{.name = "", .summary = "", .options = preprocessing_options()};
  const image::TransformConfig own = resolve_transform(parse(plain, {}), source).config;
  return [classifier, student, own](const at::Tensor& images) {
    at::Tensor input = images;
    if (own.mean != student.mean || own.std != student.std) {
      input = images.clone();
      for (std::int64_t channel = 0; channel < 3; ++channel) {
        const auto c = static_cast<std::size_t>(channel);
        input.select(1, channel)
            .mul_(student.std[c] / own.std[c])
            .add_((student.mean[c] - own.mean[c]) / own.std[c]);
      }
    }
    return classifier->logits(input);
  };
}

training::ClassificationOptions loss_of(const ParsedOptions& options) {
  training::ClassificationOptions loss;
  loss.mixup.mixup_alpha = options.number("mixup");
  loss.mixup.cutmix_alpha = options.number("cutmix");
  loss.mixup.prob = options.number("mixup-prob");
  loss.mixup.switch_prob = options.number("mixup-switch-prob");
  loss.mixup.label_smoothing = options.number("smoothing");
  loss.seed = static_cast<std::uint64_t>(options.integer("seed"));
  loss.drop_path_rate = options.number("drop-path");
  loss.recompute_blocks = options.flag("grad-checkpointing");
  loss.distillation_is_hard = options.text("distillation-type") == "hard";
  loss.distillation_weight = options.number("distillation-alpha");
  loss.temperature = options.number("distillation-tau");
  return loss;
}

/// Every digit, so that a resumed run goes on with the same number.
std::string to_text(double value) {
  std::array<char, 32> text{};
  const auto [end, status] = std::to_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() ? std::string(text.data(), end) : "0";
}

/// What decided the result, for the file: the options without those of one start of the program.
std::string recipe_of(const ParsedOptions& options) {
  nlohmann::json recipe = nlohmann::json::parse(options.dump_config());
  for (const char* name : {"resume", "output", "force", "format", "max-minutes", "log-interval",
                           "checkpoint-hist", "threads", "workers", "ddp-timeout", "verbose",
                           "quiet", "no-progress", "color", "print-transform"})
    recipe.erase(name);
  return recipe.dump();
}

fs::path output_folder(const ParsedOptions& options, const ModelSource& source) {
  if (options.given("output")) return options.text("output");
  std::string name =
      fs::path(source.name).stem().string() + "-" + model::to_text(source.config.attention);
  std::ranges::replace(name, ':', '_');
  return fs::path("output") / "train" / name;
}

/// The state to go on from.
std::optional<fs::path> state_to_resume(const ParsedOptions& options,
                                        const training::StateFolder& states) {
  const std::string& word = options.text("resume");
  if (word == "auto") return states.newest();
  if (!word.empty()) return fs::path(word);
  if (states.newest() && !options.flag("force")) {
    throw Error(ErrorCode::invalid_argument, "the folder holds a run", states.folder().string(),
                "--resume auto goes on with it, --force begins anew");
  }
  return std::nullopt;
}

/// Numbers of the epoch that is under way, which a state keeps.
struct EpochSums {
  double loss = 0;
  std::int64_t steps = 0;
};

/// One run from its options to its last epoch.
class TrainingRun {
 public:
  explicit TrainingRun(const ParsedOptions& options)
      : options_(options),
        launch_(training::read_launch_environment()),
        console_(launch_.is_first() ? Console(options) : Console(options).errors_only()),
        device_(choose_device(options, launch_)),
        group_(join_training(options, device_)),
        subject_(open_subject(options)),
        length_(length_of(options, subject_.training.size(), group_->world_size())),
        autocast_(autocast_of(options, device_)),
        states_(output_folder(options, subject_.source),
                static_cast<int>(options.integer("checkpoint-hist"))) {}

  int run();

 private:
  void build_model();
  training::LoaderOptions loader_options() const;
  void resume(const fs::path& file);
  void save();
  bool go_on();
  void take(const training::StepRecord& record);
  /// False when a signal came in the middle: the epoch is to be judged again.
  bool end_epoch(std::int64_t epoch);
  int report();

  const ParsedOptions& options_;
  training::LaunchEnvironment launch_;
  Console console_;
  c10::Device device_;
  std::unique_ptr<training::ProcessGroup> group_;
  TrainingSubject subject_;
  Length length_;
  training::Autocast autocast_;
  training::StateFolder states_;
  checkpoint::Metadata about_;
  model::VisionTransformer model_{nullptr};
  std::unique_ptr<training::Optimizer> optimizer_;
  std::unique_ptr<training::ParameterAverage> average_;
  std::unique_ptr<training::BatchLoader> loader_;
  std::unique_ptr<training::ClassificationTask> task_;
  std::unique_ptr<training::Trainer> trainer_;
  std::unique_ptr<training::MetricLog> log_;
  std::unique_ptr<Progress> progress_;
  EpochSums epoch_;
  double best_top1_ = -1;
  std::int64_t best_epoch_ = -1;
  std::int64_t judged_epochs_ = 0;
  ValidationScore last_score_;
  double images_per_second_ = 0;
  Clock::time_point began_ = Clock::now();
};

void TrainingRun::build_model() {
  const ModelSource& source = subject_.source;
  at::manual_seed(static_cast<std::uint64_t>(options_.integer("seed")));
  model_ = model::VisionTransformer(source.config);
  if (!source.random_weights) {
    const checkpoint::LoadReport loaded = source.weights.load_into(*model_, source.head);
    for (const std::string& note : describe(loaded)) console_.note("note: " + note);
  }
  model_->to(device_);
  model_->train();
  optimizer_ = std::make_unique<training::Optimizer>(
      training::parameter_groups(*model_, groups_of(options_)), optimizer_of(options_));
  if (options_.flag("model-ema")) {
    training::NamedTensors trained;
    for (const training::ParameterGroup& group : optimizer_->groups())
      trained.insert(trained.end(), group.parameters.begin(), group.parameters.end());
    average_ = std::make_unique<training::ParameterAverage>(
        std::move(trained), options_.number("model-ema-decay"), options_.flag("model-ema-warmup"));
  }
}

training::LoaderOptions TrainingRun::loader_options() const {
  training::LoaderOptions loader;
  loader.sampler.batch_size = length_.batch_size;
  loader.sampler.seed = static_cast<std::uint64_t>(options_.integer("seed"));
  loader.sampler.rank = group_->rank();
  loader.sampler.world_size = group_->world_size();
  loader.sampler.repeats = static_cast<int>(options_.integer("aug-repeats"));
  loader.sampler.batches_per_epoch = length_.steps_per_epoch * length_.accumulation;
  loader.augment = augmentation_of(options_, subject_.transform.config);
  loader.workers = loader_workers(options_, launch_);
  loader.cache_bytes = options_.integer("cache-mb") << 20;
  loader.max_pixels = options_.integer("max-pixels");
  loader.on_failure = [this](const std::string& file, const std::string& message) {
    console_.note("error: " + file + ": " + message);
  };
  return loader;
}

bool TrainingRun::go_on() {
  constexpr double kSecondsOfAMinute = 60;
  const bool out_of_time =
      options_.given("max-minutes") &&
      seconds_since(began_) >= kSecondsOfAMinute * options_.number("max-minutes");
  return !stop_requested() && !out_of_time;
}

void TrainingRun::take(const training::StepRecord& record) {
  const auto steps = static_cast<double>(options_.integer("log-interval"));
  epoch_.loss += record.losses.at("loss") * steps;
  epoch_.steps += options_.integer("log-interval");
  images_per_second_ = record.images_per_second;
  if (!group_->is_first()) return;
  training::Scalars values(record.losses.begin(), record.losses.end());
  values.emplace_back("lr", record.learning_rate);
  values.emplace_back("gradient_norm", record.gradient_norm);
  values.emplace_back("images_per_second", record.images_per_second);
  values.emplace_back("wait_share", record.wait_share);
  log_->add({record.step, record.epoch, std::move(values)});
}

void TrainingRun::save() {
  if (!group_->is_first()) return;
  training::TrainingState state;
  state.step = trainer_->position().step;
  state.tensors = optimizer_->state();
  if (average_) {
    const training::NamedTensors averages = average_->state();
    state.tensors.insert(state.tensors.end(), averages.begin(), averages.end());
  }
  state.fields["seconds"] = to_text(trainer_->position().seconds);
  state.fields["best_top1"] = to_text(best_top1_);
  state.fields["best_epoch"] = std::to_string(best_epoch_);
  state.fields["judged_epochs"] = std::to_string(judged_epochs_);
  state.fields["epoch_loss"] = to_text(epoch_.loss);
  state.fields["epoch_steps"] = std::to_string(epoch_.steps);
  states_.save(*model_, about_, state);
}

void TrainingRun::resume(const fs::path& file) {
  const training::TrainingState state = training::load_training_state(file, *model_);
  const auto field = [&](const char* key) {
    const auto found = state.fields.find(key);
    if (found == state.fields.end())
      throw Error(ErrorCode::decode_failed, std::string("no ") + key + " in it", file.string());
    return to_number(found->second, file.string());
  };
  optimizer_->load_state(state.tensors);
  if (average_) average_->load_state(state.tensors);
  trainer_->resume({state.step, field("seconds")});
  best_top1_ = field("best_top1");
  best_epoch_ = static_cast<std::int64_t>(field("best_epoch"));
  judged_epochs_ = static_cast<std::int64_t>(field("judged_epochs"));
  epoch_ = {field("epoch_loss"), static_cast<std::int64_t>(field("epoch_steps"))};
  console_.note("resumed at step " + std::to_string(state.step) + " of " +
                std::to_string(length_.steps()) + " from " + file.string());
}

bool TrainingRun::end_epoch(std::int64_t epoch) {
  training::Scalars numbers;
  const double rate =
      training::learning_rate(schedule_of(options_, length_), trainer_->position().step - 1);
  numbers.emplace_back("lr", rate);
  if (epoch_.steps > 0)
    numbers.emplace_back("train_loss", epoch_.loss / static_cast<double>(epoch_.steps));
  if (average_) average_->swap();
  if (!subject_.validation.empty()) {
    PipelineOptions pipeline;
    pipeline.transform = subject_.transform.config;
    pipeline.decode.apply_exif = false;
    pipeline.decode.max_pixels = options_.integer("max-pixels");
    pipeline.workers = loader_workers(options_, launch_);
    last_score_ =
        validate_model(*model_, device_, autocast_, subject_.validation, pipeline, *group_);
    if (last_score_.interrupted) {
      if (average_) average_->swap();
      return false;
    }
    numbers.emplace_back("eval_loss", last_score_.loss);
    numbers.emplace_back("eval_top1", last_score_.top1);
    numbers.emplace_back("eval_top5", last_score_.top5);
  }
  // Without validation the newest is the best there is.
  const bool is_best = subject_.validation.empty() || last_score_.top1 > best_top1_;
  if (is_best) {
    best_top1_ = subject_.validation.empty() ? -1 : last_score_.top1;
    best_epoch_ = epoch;
    if (group_->is_first()) states_.save_best(*model_, about_);
  }
  if (average_) average_->swap();
  epoch_ = {};
  judged_epochs_ = epoch + 1;
  if (!group_->is_first()) return true;
  log_->add_epoch({trainer_->position().step, epoch, numbers});
  std::string line = "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(length_.epochs);
  for (const auto& [name, value] : numbers) line += "  " + name + " " + significant(value, 4);
  progress_->hide();
  console_.note(line + (is_best && !subject_.validation.empty() ? "  (best)" : ""));
  return true;
}

int TrainingRun::report() {
  if (!group_->is_first()) return exit_code_after_stop(kExitOk);
  KeyValueReport report;
  report.add("schema", std::int64_t{1});
  report.add("model", subject_.source.name);
  report.add("attention", model::to_text(subject_.source.config.attention));
  report.add("steps", trainer_->position().step);
  report.add("epochs", trainer_->position().step / length_.steps_per_epoch);
  if (best_top1_ >= 0) {
    report.add("best_top1", best_top1_);
    report.add("best_epoch", best_epoch_ + 1);
  }
  report.add("images_per_second", images_per_second_, 1);
  report.add("seconds", trainer_->position().seconds, 1);
  report.add("processes", group_->world_size());
  report.add("best", states_.best().string());
  report.add("last", (states_.folder() / "last.safetensors").string());
  report.write(choose_format(options_.text("format"), ""), std::cout);
  return exit_code_after_stop(kExitOk);
}

int TrainingRun::run() {
  at::set_num_threads(model_threads(options_, launch_));
  for (const std::string& note : subject_.source.notes) console_.note("note: " + note);
  if (options_.flag("print-transform")) console_.note(subject_.transform.describe());
  build_model();
  about_ = describe_descendant(subject_.source, "train", subject_.transform, subject_.labels);
  about_["training"] = recipe_of(options_);
  loader_ = std::make_unique<training::BatchLoader>(subject_.training, loader_options());
  task_ = std::make_unique<training::ClassificationTask>(
      *model_, loss_of(options_),
      make_teacher(options_, subject_.transform.config, subject_.source.config.num_classes,
                   device_),
      group_->rank());
  training::TrainerOptions wanted;
  wanted.schedule = schedule_of(options_, length_);
  wanted.accumulation = length_.accumulation;
  wanted.clip_norm = options_.number("clip-grad");
  wanted.autocast = autocast_;
  wanted.device = device_;
  wanted.seed = static_cast<std::uint64_t>(options_.integer("seed"));
  wanted.log_every = options_.integer("log-interval");
  trainer_ = std::make_unique<training::Trainer>(*task_, *loader_, *optimizer_, average_.get(),
                                                 *group_, wanted);
  trainer_->on_record = [this](const training::StepRecord& record) { take(record); };
  trainer_->keep_going = [this] {
    progress_->advance();
    return go_on();
  };
  const std::optional<fs::path> state = state_to_resume(options_, states_);
  const bool is_resumed = state.has_value();
  if (is_resumed) resume(*state);
  if (group_->is_first()) {
    log_ = std::make_unique<training::MetricLog>(states_.folder(),
                                                 is_resumed ? trainer_->position().step : -1);
  }
  console_.note(subject_.about_data + "; " + std::to_string(length_.steps_per_epoch) +
                " steps of " + std::to_string(length_.pictures_of_a_step) + " an epoch");
  progress_ = std::make_unique<Progress>("train", length_.steps() - trainer_->position().step,
                                         console_.progress && group_->is_first());
  began_ = Clock::now();
  bool go_on = true;
  while (go_on) {
    const std::int64_t step = trainer_->position().step;
    const std::int64_t epoch = step / length_.steps_per_epoch;
    if (epoch > judged_epochs_ && step % length_.steps_per_epoch == 0) {
      go_on = end_epoch(epoch - 1);
      save();
    } else if (trainer_->finished()) {
      break;
    } else {
      trainer_->run((epoch + 1) * length_.steps_per_epoch);
      go_on = !trainer_->was_stopped();
      if (!go_on) save();
    }
  }
  progress_->finish();
  group_->barrier();
  return report();
}

int run_train(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  return TrainingRun(options).run();
}

}  // namespace

Command train_command() { return {train_spec(), run_train}; }

}  // namespace hydrascope::app
