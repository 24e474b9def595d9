#include "app/train/settings.h"

#include "app/train/training_options.h"
#include "kernels/error.h"
#include "model/training/data/training_set.h"

#include <algorithm>
#include <string>

namespace hydrascope::app {

namespace training = model::training;

RunLength length_of(const ParsedOptions& options, std::size_t pictures, int world_size) {
  RunLength length;
  length.batch_size = options.integer("batch-size");
  length.accumulation = options.integer("grad-accum-steps");
  length.epochs = options.integer("epochs");
  length.pictures_of_a_step = length.batch_size * length.accumulation * world_size;
  length.steps_per_epoch = static_cast<std::int64_t>(pictures) / length.pictures_of_a_step;
  if (length.steps_per_epoch < 1) {
    throw Error(ErrorCode::invalid_argument,
                "an update takes " + std::to_string(length.pictures_of_a_step) +
                    " pictures, and there are " + std::to_string(pictures),
                "--batch-size " + options.text("batch-size"));
  }
  return length;
}

training::ScheduleOptions schedule_of(const ParsedOptions& options, const RunLength& length) {
  // DeiT's rule (arXiv 2012.12877, table 9).
  constexpr double kRate = 5e-4;
  constexpr double kPictures = 512;
  constexpr std::int64_t kWarmupEpochs = 5;
  const std::int64_t warmup_epochs = options.given("warmup-epochs")
                                         ? options.integer("warmup-epochs")
                                         : std::min(kWarmupEpochs, length.epochs - 1);
  if (warmup_epochs >= length.epochs) {
    throw Error(ErrorCode::invalid_argument,
                "of " + std::to_string(length.epochs) + " epochs none would be left",
                "--warmup-epochs " + options.text("warmup-epochs"));
  }
  training::ScheduleOptions schedule;
  schedule.kind = options.text("sched");
  schedule.learning_rate = options.given("lr")
                               ? options.number("lr")
                               : kRate * static_cast<double>(length.pictures_of_a_step) / kPictures;
  constexpr double kMinRate = 1e-5;
  constexpr double kMostOfRate = 0.01;
  schedule.min_learning_rate = options.given("min-lr")
                                   ? std::min(options.number("min-lr"), schedule.learning_rate)
                                   : std::min(kMinRate, kMostOfRate * schedule.learning_rate);
  schedule.steps = length.steps();
  schedule.warmup_steps = warmup_epochs * length.steps_per_epoch;
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

training::ClassificationOptions loss_of(const ParsedOptions& options) {
  training::ClassificationOptions loss;
  loss.mixup = mixing_of(options);
  loss.mixup.label_smoothing = options.number("smoothing");
  loss.seed = static_cast<std::uint64_t>(options.integer("seed"));
  loss.drop_path_rate = options.number("drop-path");
  loss.recompute_blocks = options.flag("grad-checkpointing");
  // A dumped configuration holds defaults too.
  for (const char* name : {"distillation-type", "distillation-alpha", "distillation-tau"}) {
    if (options.source(name) == Source::command_line && options.text("teacher").empty())
      throw Error(ErrorCode::invalid_argument, "there is no teacher", options.origin(name),
                  "--teacher MODEL");
  }
  loss.distillation_is_hard = options.text("distillation-type") == "hard";
  loss.distillation_weight = options.number("distillation-alpha");
  loss.temperature = options.number("distillation-tau");
  return loss;
}

void refuse_beside_sizes(const ParsedOptions& options) {
  const auto refuse_if = [](bool is_on, const std::string& name) {
    if (is_on) throw Error(ErrorCode::invalid_argument, "does not go with --sizes", "--" + name);
  };
  for (const char* name : {"mixup", "cutmix", "vflip", "color-jitter", "reprob"})
    refuse_if(options.number(name) > 0, name);
  refuse_if(training::parse_rand_augment(options.text("aa")).operations > 0, "aa");
}

}  // namespace hydrascope::app
