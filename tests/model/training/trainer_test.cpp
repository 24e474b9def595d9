#include "model/training/trainer.h"

#include "model/training/classification_task.h"
#include "model/training/parameter_groups.h"
#include "model/training/training_state.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

using hydrascope::testing::ppm;
using hydrascope::testing::TemporaryFolder;

constexpr int kPictures = 16;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

NamedTensors parameters_of(const Optimizer& optimizer) {
  NamedTensors all;
  for (const ParameterGroup& group : optimizer.groups())
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

/// Weights and everything that updates keep of them, as they are now.
NamedTensors snapshot(const Optimizer& optimizer, const ParameterAverage& average) {
  NamedTensors all = parameters_of(optimizer);
  for (const NamedTensors& more : {optimizer.state(), average.state()})
    all.insert(all.end(), more.begin(), more.end());
  for (auto& [name, tensor] : all) tensor = tensor.detach().clone();
  return all;
}

void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

std::vector<at::Tensor> weights(const Optimizer& optimizer) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : optimizer.parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

/// L2, over all weights together.
double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b.at(i)).to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

ScheduleOptions constant_rate(double rate, std::int64_t steps) {
  ScheduleOptions schedule;
  schedule.kind = "constant";
  schedule.learning_rate = rate;
  schedule.steps = steps;
  return schedule;
}

/// Call i costs values[i], which is the gradient of each weight, too: the trainer's use of costs
/// shows without a model.
class ScriptedTask final : public LossTask {
 public:
  ScriptedTask(at::Tensor weight, std::vector<double> values)
      : weight_(std::move(weight)), values_(std::move(values)) {}

  StepLoss loss(const Batch&, std::int64_t) override {
    was_cast_ = at::autocast::is_autocast_enabled(at::kCPU);
    const double value = values_.at(calls_++);
    StepLoss cost{(1 + (weight_ - weight_.detach()).sum()) * value};
    cost.parts["half"] = cost.loss.detach() / 2;
    return cost;
  }
  [[nodiscard]] std::size_t calls() const { return calls_; }
  [[nodiscard]] bool was_cast() const { return was_cast_; }

 private:
  at::Tensor weight_;
  std::vector<double> values_;
  std::size_t calls_ = 0;
  bool was_cast_ = false;
};

std::vector<ParameterGroup> one_group(const at::Tensor& weight) {
  ParameterGroup group;
  group.parameters.emplace_back("weight", weight);
  group.weight_decay = 0.1;  // moves weights even where the gradient is zero
  return {group};
}

struct ScriptedRun {
  ScriptedRun(std::vector<double> values, const TrainerOptions& options,
              const std::vector<TrainingPicture>& pictures, const LoaderOptions& batches,
              ProcessGroup& group)
      : weight(at::ones({3}).requires_grad_()),
        optimizer(one_group(weight), OptimizerOptions{}),
        average(parameters_of(optimizer), 0.5, /*warmup=*/false),
        loader(pictures, batches),
        task(weight, std::move(values)),
        trainer(task, loader, optimizer, &average, group, options) {}

  at::Tensor weight;
  Optimizer optimizer;
  ParameterAverage average;
  BatchLoader loader;
  ScriptedTask task;
  Trainer trainer;
};

struct ModelRunOptions {
  VitConfig config = small_config();
  ParameterGroupOptions groups = {};
  OptimizerOptions optimizer = {};
  LoaderOptions loader = {};
  ClassificationOptions task = {};
  TrainerOptions trainer = {};
};

/// A run of a model. All of them begin with the same weights.
struct ModelRun {
  ModelRun(const ModelRunOptions& options, const std::vector<TrainingPicture>& pictures,
           ProcessGroup& group)
      : model(random_model(options.config)),
        optimizer(parameter_groups(*model, options.groups), options.optimizer),
        average(parameters_of(optimizer), 0.9, /*warmup=*/true),
        loader(pictures, options.loader),
        task(*model, options.task, nullptr, /*rank=*/0),
        trainer(task, loader, optimizer, &average, group, options.trainer) {}

  VisionTransformer model;
  Optimizer optimizer;
  ParameterAverage average;
  BatchLoader loader;
  ClassificationTask task;
  Trainer trainer;
};

/// Pictures, each of a class of its own, and a process.
class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() : group_(std::make_unique<ProcessGroup>()) {
    at::set_num_threads(1);  // products of this size are over before another thread is awake
    for (int i = 0; i < kPictures; ++i) {
      const auto file =
          folder_.write(std::to_string(i) + ".ppm", ppm(40, 36, static_cast<unsigned>(i) * 37));
      pictures_.push_back({file, i, 0});
    }
  }

  static LoaderOptions batches_of(std::int64_t count, std::int64_t side = 32) {
    LoaderOptions options;
    options.sampler.batch_size = count;
    options.augment.size = {side, side};
    return options;
  }

  [[nodiscard]] std::unique_ptr<ScriptedRun> scripted(std::vector<double> values,
                                                      const TrainerOptions& options) {
    return std::make_unique<ScriptedRun>(std::move(values), options, pictures_,
                                         batches_of(4, /*side=*/8), *group_);
  }

  TemporaryFolder folder_;
  std::vector<TrainingPicture> pictures_;
  std::unique_ptr<ProcessGroup> group_;
};

// Plain SGD, whose update grows with the gradient: AdamW would hide a wrong scale. In float32, as
// the sums over images are associated in another order.
TEST_F(TrainerTest, AccumulatedPartsAreOneLargeBatch) {
  constexpr int kSteps = 3;  // past the end of an epoch
  constexpr int kParts = 2;
  constexpr double kRate = 0.5;
  constexpr double kClipNorm = 0.1;
  ModelRunOptions in_one;
  in_one.config.num_classes = kPictures;
  in_one.groups.weight_decay = 0;  // else it moves the weights more than what is clipped does
  in_one.optimizer.kind = OptimizerKind::sgd;
  in_one.optimizer.momentum = 0;
  in_one.loader = batches_of(8);
  in_one.trainer.schedule = constant_rate(kRate, kSteps);
  in_one.trainer.clip_norm = kClipNorm;
  in_one.trainer.log_every = 1;
  ModelRunOptions in_parts = in_one;
  in_parts.loader = batches_of(8 / kParts);
  in_parts.trainer.accumulation = kParts;

  ModelRun large(in_one, pictures_, *group_);
  ModelRun parts(in_parts, pictures_, *group_);
  const std::vector<at::Tensor> start = weights(large.optimizer);
  ASSERT_EQ(distance(start, weights(parts.optimizer)), 0);
  std::vector<StepRecord> of_large;
  std::vector<StepRecord> of_parts;
  large.trainer.on_record = [&](const StepRecord& record) { of_large.push_back(record); };
  parts.trainer.on_record = [&](const StepRecord& record) { of_parts.push_back(record); };
  ASSERT_EQ(large.trainer.run(kSteps), kSteps);
  ASSERT_EQ(parts.trainer.run(kSteps), kSteps);

  const std::vector<at::Tensor> end = weights(large.optimizer);
  const double moved = distance(end, start);
  constexpr double kTolerance = 1e-3;
  EXPECT_LT(distance(weights(parts.optimizer), end), kTolerance * moved);
  ASSERT_EQ(of_large.size(), kSteps);
  ASSERT_EQ(of_parts.size(), kSteps);
  for (int i = 0; i < kSteps; ++i) {
    EXPECT_GT(of_large[i].gradient_norm, 2 * kClipNorm) << "nothing is clipped in step " << i;
    EXPECT_NEAR(of_parts[i].gradient_norm, of_large[i].gradient_norm,
                kTolerance * of_large[i].gradient_norm);
    EXPECT_NEAR(of_parts[i].losses.at("loss"), of_large[i].losses.at("loss"), kTolerance);
  }

  // A trainer that clips as the parts come is wrong: the comparison above tells it apart.
  ModelRun wrong(in_parts, pictures_, *group_);
  for (int step = 0; step < kSteps; ++step) {
    wrong.optimizer.zero_grad();
    for (int part = 0; part < kParts; ++part) {
      (wrong.task.loss(wrong.loader.next(), step).loss / kParts).backward();
      clip_gradients(wrong.optimizer.parameters(), kClipNorm);
    }
    wrong.optimizer.step(kRate);
  }
  EXPECT_GT(distance(weights(wrong.optimizer), end), 50 * kTolerance * moved);
}

TEST_F(TrainerTest, SkipsStepsThatAreNotFinite) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 4);
  options.clip_norm = 1;
  const auto run = scripted({1, kNan, kInfinity, 2}, options);
  run->trainer.run(1);
  const NamedTensors before = snapshot(run->optimizer, run->average);
  EXPECT_FALSE(at::equal(run->weight, at::ones({3})));
  EXPECT_EQ(run->trainer.run(3), 2);
  EXPECT_EQ(run->trainer.position().step, 3);
  expect_same_bits(snapshot(run->optimizer, run->average), before);
  run->trainer.run(4);
  EXPECT_TRUE(run->trainer.finished());
  EXPECT_FALSE(at::equal(run->weight, before.front().second));
}

TEST_F(TrainerTest, OneBadPartSpoilsItsWholeUpdate) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 3);
  options.accumulation = 2;
  const auto run = scripted({1, 1, 1, kNan, 1, 1}, options);
  run->trainer.run(1);
  const NamedTensors before = snapshot(run->optimizer, run->average);
  run->trainer.run(2);
  expect_same_bits(snapshot(run->optimizer, run->average), before);
  run->trainer.run(3);
  EXPECT_TRUE(run->weight.isfinite().all().item<bool>());
  EXPECT_FALSE(at::equal(run->weight, before.front().second));
}

TEST_F(TrainerTest, GivesUpAfterTenBadStepsInARow) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 100);
  std::vector<double> values(9, kNan);
  values.push_back(1);  // nine are borne, and the count begins anew
  values.insert(values.end(), 10, kNan);
  const auto run = scripted(values, options);
  EXPECT_EQ(run->trainer.run(10), 10);
  const NamedTensors before = snapshot(run->optimizer, run->average);
  EXPECT_ERROR(run->trainer.run(100), failed, "10 steps in a row", "step 20");
  EXPECT_EQ(run->task.calls(), 20);
  expect_same_bits(snapshot(run->optimizer, run->average), before);
}

TEST_F(TrainerTest, ARecordHoldsMeansOverItsSteps) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 6);
  options.schedule.kind = "linear";
  options.accumulation = 2;  // of the epoch's four batches
  options.log_every = 3;
  std::vector<double> values;
  for (int i = 0; i < 12; ++i) values.push_back(i * i);
  const auto run = scripted(values, options);
  std::vector<StepRecord> records;
  run->trainer.on_record = [&](const StepRecord& record) { records.push_back(record); };
  run->trainer.run(6);
  ASSERT_EQ(records.size(), 2);
  const double means[] = {(0 + 1 + 4 + 9 + 16 + 25) / 6.0, (36 + 49 + 64 + 81 + 100 + 121) / 6.0};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t last = 3 * i + 3;
    EXPECT_EQ(records[i].step, last);
    EXPECT_EQ(records[i].steps, 3);
    EXPECT_EQ(records[i].epoch, (last - 1) / 2);
    EXPECT_DOUBLE_EQ(records[i].learning_rate, learning_rate(options.schedule, last - 1));
    EXPECT_EQ(records[i].losses.size(), 2);
    EXPECT_NEAR(records[i].losses.at("loss"), means[i], 1e-5);
    EXPECT_NEAR(records[i].losses.at("half"), means[i] / 2, 1e-5);
    EXPECT_GT(records[i].images_per_second, 0);
  }
}

TEST_F(TrainerTest, WhatIsLeftAtTheEndOfARunIsRecordedWithItsSteps) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 6);
  options.log_every = 3;
  const auto run = scripted({1, 2, 3, 10, 20, 40}, options);
  std::vector<std::vector<double>> seen;
  run->trainer.on_record = [&](const StepRecord& record) {
    seen.push_back({static_cast<double>(record.step), static_cast<double>(record.steps),
                    record.losses.at("loss")});
  };
  EXPECT_EQ(run->trainer.run(4), 4);
  EXPECT_EQ(run->trainer.run(6), 2);
  EXPECT_EQ(seen, (std::vector<std::vector<double>>{{3, 3, 2}, {4, 1, 10}, {6, 2, 30}}));
}

TEST_F(TrainerTest, CostsAreTakenUnderAutocastAndNothingElseIs) {
  TrainerOptions options;
  options.schedule = constant_rate(0.1, 2);
  options.autocast = Autocast::bfloat16;
  const auto run = scripted({1, 1}, options);
  run->trainer.run(2);
  EXPECT_TRUE(run->task.was_cast());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(run->weight.scalar_type(), at::kFloat);
  EXPECT_EQ(run->weight.grad().scalar_type(), at::kFloat);
}

// In the middle of an epoch, with all that draws: pictures, mixing, drop-path.
TEST_F(TrainerTest, AResumedRunEndsWithTheSameBits) {
  constexpr std::int64_t kSteps = 6;
  constexpr std::int64_t kStop = 3;
  ModelRunOptions options;
  options.config.num_classes = kPictures;
  options.loader = batches_of(4);
  options.loader.workers = 2;
  options.task.mixup.mixup_alpha = 0.8;
  options.task.mixup.cutmix_alpha = 1;
  options.task.drop_path_rate = 0.3;
  options.trainer.schedule.learning_rate = 1e-2;
  options.trainer.schedule.steps = kSteps;
  options.trainer.schedule.warmup_steps = 2;
  options.trainer.accumulation = 2;
  options.trainer.clip_norm = 1;
  options.trainer.log_every = 2;
  ModelRun straight(options, pictures_, *group_);
  ASSERT_EQ(straight.trainer.run(kSteps), kSteps);
  EXPECT_FALSE(straight.trainer.was_stopped());
  const NamedTensors expected = snapshot(straight.optimizer, straight.average);

  StateFolder states(folder_.path() / "run");
  ModelRun stopped(options, pictures_, *group_);
  std::int64_t asked = 0;
  stopped.trainer.keep_going = [&] { return ++asked != kStop; };
  ASSERT_EQ(stopped.trainer.run(kSteps), kStop);
  EXPECT_TRUE(stopped.trainer.was_stopped());
  EXPECT_FALSE(stopped.trainer.finished());
  TrainingState state;
  state.step = stopped.trainer.position().step;
  state.tensors = stopped.optimizer.state();
  for (const auto& entry : stopped.average.state()) state.tensors.push_back(entry);
  states.save(*stopped.model, checkpoint::Metadata{}, state);

  ModelRun resumed(options, pictures_, *group_);
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : resumed.optimizer.parameters()) parameter.zero_();
  }
  at::manual_seed(12345);  // another process has drawn other numbers so far
  ASSERT_TRUE(states.newest().has_value());
  const TrainingState loaded = load_training_state(*states.newest(), *resumed.model);
  ASSERT_EQ(loaded.step, kStop);
  resumed.optimizer.load_state(loaded.tensors);
  resumed.average.load_state(loaded.tensors);
  resumed.trainer.resume({loaded.step, 0});
  EXPECT_EQ(resumed.trainer.run(kSteps), kSteps - kStop);
  EXPECT_TRUE(resumed.trainer.finished());
  expect_same_bits(snapshot(resumed.optimizer, resumed.average), expected);

  // The one that was stopped goes on as well, and had not been there yet.
  EXPECT_GT(distance(weights(stopped.optimizer), weights(straight.optimizer)), 0);
  EXPECT_EQ(stopped.trainer.run(kSteps), kSteps - kStop);
  expect_same_bits(snapshot(stopped.optimizer, stopped.average), expected);
}

}  // namespace
}  // namespace hydrascope::model::training
