#include "app/train/settings.h"

#include "app/run/usage_error.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hydrascope::app {

namespace training = model::training;

namespace {

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

}  // namespace

TrainRequest train_request(const ParsedOptions& options) {
  TrainRequest request;
  static_cast<TrainingRequest&>(request) = training_request(options, "train");
  options.fill<TrainOptions>(request);
  options.fill(request.data, request.loss, request.schedule);
  request.weighs_ponder = options.given(&model::training::ClassificationOptions::ponder_weight);
  if (!request.sizes.empty()) refuse_beside_sizes(request);
  refuse_without_teacher(options);
  DataRequest& data = request.data;
  data.words = request.words;
  data.labels = request.labels;
  data.seed = request.run.seed;
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

}  // namespace hydrascope::app
