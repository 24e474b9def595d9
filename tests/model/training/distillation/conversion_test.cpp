#include "model/training/distillation/conversion.h"

#include "kernels/input_file.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/registry/mechanisms.h"
#include "model/training/distillation/conversion_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <vector>

namespace hydrascope::model::training {
namespace {

using hydrascope::testing::ppm;
using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

/// Pictures, a teacher and what a conversion needs besides the student.
class ConversionTest : public ::testing::Test {
 protected:
  ConversionTest()
      : teacher_(random_model(small_config())), group_(std::make_unique<ProcessGroup>()) {
    at::set_num_threads(1);  // products of this size are over before another thread is awake
    std::vector<TrainingPicture> held_out;
    for (unsigned i = 0; i < 32; ++i) {
      const int width = 40 + static_cast<int>(i % 5);
      const auto file =
          folder_.write("pictures/" + std::to_string(i) + ".ppm", ppm(width, 40, i * 37));
      (i % 4 == 0 ? held_out : pictures_).push_back({file, -1, 0});
    }
    image::TransformConfig transform;
    transform.img_size = {32, 32};
    transform.patch_size = 8;
    held_out_ = std::make_unique<HeldOutImages>(held_out, transform, 1);
  }

  static ConversionOptions options() {
    ConversionOptions chosen;
    chosen.maps = {.steps = 6, .learning_rate = 1e-2, .batch_size = 4, .evaluations = 1};
    chosen.outputs = {.steps = 8, .learning_rate = 3e-3, .batch_size = 8, .evaluations = 2};
    chosen.finetune = {.steps = 16, .learning_rate = 3e-3, .batch_size = 8, .evaluations = 4};
    chosen.of_maps.query_rows = 9;
    chosen.hydra_start_batches = 1;
    chosen.loader.augment.size = {32, 32};
    chosen.loader.augment.scale = {0.5, 1};
    chosen.trainer.log_every = 2;
    return chosen;
  }

  VisionTransformer student(const std::string& attention,
                            const std::vector<std::string>& mechanism_options = {}) {
    return student_of(teacher_.model(), small_config(attention, mechanism_options));
  }

  std::unique_ptr<Conversion> conversion(VisionTransformer& student, const std::string& name,
                                         const ConversionOptions& chosen,
                                         const std::string& identity = "{}") {
    ConversionOptions identified = chosen;
    identified.identity = identity;
    return std::make_unique<Conversion>(teacher_, *student, pictures_, *held_out_, *group_,
                                        folder_.path() / name, checkpoint::Metadata{}, identified);
  }

  TemporaryFolder folder_;
  Teacher teacher_;
  std::vector<TrainingPicture> pictures_;
  std::unique_ptr<HeldOutImages> held_out_;
  std::unique_ptr<ProcessGroup> group_;
};

TEST(AgreementTest, ANumberIsBetterThanNone) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE((Agreement{0, 1.5}.is_better_than({0, 2})));
  EXPECT_FALSE((Agreement{0, 2}.is_better_than({0, 2})));
  EXPECT_TRUE((Agreement{0, 1.5}.is_better_than({0, kNone})));
  EXPECT_FALSE((Agreement{0, kNone}.is_better_than({0, 1.5})));
  EXPECT_FALSE((Agreement{0, kNone}.is_better_than({0, kNone})));
}

TEST(AgreementTest, CosinesDecideAboutFeatures) {
  const auto features = [](double pooled, double patches) {
    return Agreement{0, 0, Target::features, pooled, patches};
  };
  EXPECT_NEAR(features(0.9, 0.7).distance(), 0.2, 1e-12);
  EXPECT_TRUE(features(0.8, 0.9).is_better_than(features(0.9, 0.7)));
  EXPECT_FALSE(features(0.9, 0.7).is_better_than(features(0.9, 0.7)));
}

std::map<std::string, at::Tensor> copies_of(VisionTransformer& model) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& item : model->named_parameters())
    copies[item.key()] = item.value().detach().clone();
  return copies;
}

/// A conversion that runs whole, and in parts of 7 steps each.
struct Course {
  const char* name;
  VitConfig (*config)(const std::string& attention);
  const char* attention;
  void (*choose)(ConversionOptions& chosen);
  std::size_t parts;
};

class ConversionCourseTest : public ConversionTest, public ::testing::WithParamInterface<Course> {};
INSTANTIATE_TEST_SUITE_P(
    All, ConversionCourseTest,
    ::testing::Values(
        Course{"LowRank", [](const std::string& attention) { return small_config(attention); },
               "hydra:last2",
               [](ConversionOptions& chosen) {
                 chosen.low_rank = {.rank = 2, .targets = "qkv,proj,fc1,fc2"};
                 chosen.average_decay = 0.9;
               },
               4},
        Course{"Tower", [](const std::string& attention) { return small_tower(attention); },
               "hedgehog:0-1,hydra:2",
               [](ConversionOptions& chosen) { chosen.of_finetune.mixup.mixup_alpha = 0.8; }, 5},
        Course{"Averages", [](const std::string& attention) { return small_config(attention); },
               "hedgehog:0-1,hydra:2",
               [](ConversionOptions& chosen) {
                 chosen.average_decay = 0.9;
                 chosen.of_finetune.mixup.mixup_alpha = 0.8;
               },
               5}),
    [](const auto& course) { return course.param.name; });

// Stopped in every stage, in the middle of a step's interval and at its end.
TEST_P(ConversionCourseTest, AResumedRunIsTheUninterruptedOneBitForBit) {
  const Course& course = GetParam();
  Teacher teacher(random_model(course.config("softmax")));
  ConversionOptions chosen = options();
  course.choose(chosen);
  const auto begin = [&](VisionTransformer& model, const char* name) {
    model = student_of(teacher.model(), course.config(course.attention));
    return std::make_unique<Conversion>(teacher, *model, pictures_, *held_out_, *group_,
                                        folder_.path() / name, checkpoint::Metadata{}, chosen);
  };
  VisionTransformer whole{nullptr};
  const ConversionHistory expected = begin(whole, "whole")->run({});
  EXPECT_TRUE(expected.is_complete);
  const Agreement& start = expected.start().agreement;
  const Agreement& best = expected.best_evaluation().agreement;
  EXPECT_LT(best.distance(), start.distance());
  if (teacher.target() == Target::features) {
    EXPECT_GT(best.pooled_cosine, start.pooled_cosine);
    EXPECT_GT(best.patch_cosine, start.patch_cosine);
    EXPECT_LT(best.distance(), 0.5 * start.distance());
  }
  AgreementMeter test(teacher, *held_out_, *group_, at::kCPU, Autocast::off);
  // The run's meter begins behind the layers that are the teacher's; here with low rank alone there are some.
  EXPECT_NEAR(test.measure(*whole).distance(), best.distance(), chosen.low_rank.rank > 0 ? 1e-6 : 0)
      << "the student is the best state";
  for (const auto& item : whole->named_parameters())
    EXPECT_EQ(item.key().find("lora"), std::string::npos) << item.key();

  ConversionHistory history;
  for (std::size_t part = 1; part <= course.parts; ++part) {
    VisionTransformer model{nullptr};
    const auto run = begin(model, "parts");
    if (const auto state = run->newest_state()) run->resume(*state);
    std::int64_t steps = 0;
    ConversionEvents events;
    events.keep_going = [&] { return ++steps < 7; };
    history = run->run(events);
    EXPECT_EQ(history.is_complete, part == course.parts) << part;
  }
  for (const char* file : {"last.safetensors", "best.safetensors"})
    EXPECT_EQ(read_bytes(folder_.path() / "parts" / file),
              read_bytes(folder_.path() / "whole" / file))
        << file;
  ASSERT_EQ(history.evaluations.size(), expected.evaluations.size());
  for (std::size_t i = 0; i < expected.evaluations.size(); ++i) {
    EXPECT_EQ(history.evaluations[i].stage, expected.evaluations[i].stage);
    EXPECT_EQ(history.evaluations[i].agreement.target, teacher.target());
    EXPECT_EQ(history.evaluations[i].agreement.distance(),
              expected.evaluations[i].agreement.distance())
        << i;
  }
  EXPECT_EQ(history.best, expected.best);
}

TEST_F(ConversionTest, AStudentThatIsItsTeacherHasTheCosineOneAtEveryPooling) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg, Pooling::map}) {
    SCOPED_TRACE(name(pooling));
    Teacher tower(random_model(small_tower("softmax", pooling)));
    VisionTransformer model = student_of(tower.model(), small_tower("window", pooling));
    LoaderOptions shown;
    shown.augment.size = {32, 32};
    for (const std::int64_t shared : {0, 2}) {
      AgreementMeter meter(tower, *held_out_, *group_, at::kCPU, Autocast::off, shown, shared);
      const Agreement same = meter.measure(*model);
      EXPECT_NEAR(same.pooled_cosine, 1, 1e-6);
      EXPECT_NEAR(same.patch_cosine, 1, 1e-6);
    }
    shown.resolutions.sizes = {{64, 64}, {32, 32}};
    AgreementMeter larger(tower, *held_out_, *group_, at::kCPU, Autocast::off, shown);
    const Agreement other = larger.measure(*model);
    EXPECT_LT(other.patch_cosine, 0.9999);
    EXPECT_GT(other.patch_cosine, 0.3);
  }
}

TEST_F(ConversionTest, FeaturesLeaveAClassifierAlone) {
  ConversionOptions chosen = options();
  chosen.maps.steps = 0;
  chosen.sizes = {.steps = 3, .learning_rate = 1e-3, .batch_size = 4, .evaluations = 1};
  chosen.resolutions.sizes = {{48, 48}};
  Teacher teacher(random_model(small_config()), Target::features);
  VisionTransformer model = student_of(teacher.model(), small_config("hydra:2"));
  std::map<std::string, at::Tensor> before = copies_of(model);
  Conversion run(teacher, *model, pictures_, *held_out_, *group_, folder_.path() / "run", {},
                 chosen);
  const ConversionHistory history = run.run({});
  ASSERT_EQ(history.stages.size(), 3);
  EXPECT_EQ(history.stages.back().stage, "sizes");
  for (const char* name : {"head.weight", "head.bias"})
    EXPECT_TRUE(at::equal(parameter(*model, name), before[name])) << name;
}

TEST_F(ConversionTest, BringsTheStudentNearTheTeacherAndKeepsTheBestState) {
  VisionTransformer model = student("hedgehog:0-1,hydra:2", {"hydra.feature_scale=on"});
  const auto run = conversion(model, "run", options());
  EXPECT_EQ(run->planned_steps(), 30);
  std::vector<std::string> stages;
  std::int64_t records = 0;
  ConversionEvents events;
  events.on_stage = [&](const StageStart& start) {
    stages.emplace_back(name(start.stage));
    EXPECT_EQ(start.number, stages.size());
    EXPECT_EQ(start.stages, 3);
    EXPECT_EQ(start.step, 0);
  };
  events.on_record = [&](Stage, std::int64_t, const StepRecord&) { ++records; };
  const ConversionHistory history = run->run(events);

  EXPECT_EQ(stages, (std::vector<std::string>{"maps", "outputs", "finetune"}));
  EXPECT_EQ(records, 15);
  EXPECT_TRUE(history.is_complete);
  ASSERT_EQ(history.evaluations.size(), 2 + 1 + 2 + 4);
  EXPECT_EQ(history.start().stage, "start");
  EXPECT_LT(history.best_evaluation().agreement.divergence,
            0.5 * history.start().agreement.divergence);
  for (const Evaluation& evaluation : history.evaluations)
    EXPECT_FALSE(evaluation.agreement.is_better_than(history.best_evaluation().agreement));
  ASSERT_EQ(history.layers.size(), 3);
  EXPECT_EQ(history.layers[2].mechanism, "hydra");
  EXPECT_LT(history.layers[2].after, history.layers[2].before);
  ASSERT_EQ(history.stages.size(), 3);
  EXPECT_EQ(history.stages[2].images, 16 * 8);

  // The student is the best state: its agreement is what the best look found.
  AgreementMeter test(teacher_, *held_out_, *group_, at::kCPU, Autocast::off);
  const Agreement now = test.measure(*model);
  EXPECT_EQ(now.top1, history.best_evaluation().agreement.top1);
  EXPECT_EQ(now.divergence, history.best_evaluation().agreement.divergence);
}

TEST_F(ConversionTest, FrozenParametersStay) {
  VisionTransformer model = student("hydra:1-2");
  std::map<std::string, at::Tensor> before = copies_of(model);
  conversion(model, "run", options())->run({});
  bool moved = false;
  for (const auto& item : model->named_parameters()) {
    const bool is_trained = item.key().starts_with("blocks.1.") ||
                            item.key().starts_with("blocks.2.") || item.key().starts_with("norm.");
    const bool is_same = at::equal(item.value(), before[item.key()]);
    EXPECT_TRUE(is_trained || is_same) << item.key();
    moved = moved || (is_trained && !is_same);
  }
  EXPECT_TRUE(moved);
}

TEST_F(ConversionTest, ASignalWithinALookEndsItAndTheNextRunBeginsWithIt) {
  ConversionOptions chosen = options();
  chosen.average_decay = 0.9;
  VisionTransformer whole = student("hydra:last2");
  EXPECT_TRUE(conversion(whole, "whole", chosen)->run({}).is_complete);
  bool is_complete = false;
  int parts = 0;
  for (; !is_complete && parts < 20; ++parts) {
    VisionTransformer model = student("hydra:last2");
    const auto run = conversion(model, "parts", chosen);
    if (const auto state = run->newest_state()) run->resume(*state);
    ConversionEvents events;
    std::int64_t steps = 0;
    events.keep_going = [&] {
      if (++steps == 3) g_stop_signal = SIGTERM;
      return true;
    };
    const ConversionHistory history = run->run(events);
    EXPECT_EQ(std::isnan(history.layers.front().after), g_stop_signal != 0);
    g_stop_signal = 0;
    is_complete = history.is_complete;
  }
  EXPECT_GT(parts, 4);
  EXPECT_TRUE(is_complete);
  for (const char* file : {"last.safetensors", "best.safetensors"})
    EXPECT_EQ(read_bytes(folder_.path() / "parts" / file),
              read_bytes(folder_.path() / "whole" / file))
        << file;
  VisionTransformer none = student("hydra:last2");
  g_stop_signal = SIGTERM;
  EXPECT_THROW(conversion(none, "none", chosen), Stopped);
  g_stop_signal = 0;
}

TEST_F(ConversionTest, AStateOfOtherSettingsIsRefused) {
  VisionTransformer model = student("hydra");
  ConversionEvents events;
  std::int64_t steps = 0;
  events.keep_going = [&] { return ++steps < 3; };
  conversion(model, "run", options(), R"({"lr":"1"})")->run(events);
  VisionTransformer again = student("hydra");
  const auto other = conversion(again, "run", options(), R"({"lr":"2"})");
  ASSERT_TRUE(other->newest_state());
  EXPECT_ERROR(other->resume(*other->newest_state()), invalid_argument, "other settings: lr");
  other->forget_states();
  EXPECT_FALSE(other->newest_state());
}

TEST_F(ConversionTest, WithoutTimeForAStepNoneIsTaken) {
  ConversionOptions chosen = options();
  chosen.max_seconds = 1e-9;
  VisionTransformer model = student("elu:2");
  const ConversionHistory history = conversion(model, "run", chosen)->run({});
  EXPECT_FALSE(history.is_complete);
  EXPECT_TRUE(history.stages.empty());
  EXPECT_EQ(history.evaluations.back().stage, "start");

  // With time enough it goes on with all stages.
  chosen.max_seconds = 0;
  VisionTransformer again = student("elu:2");
  const auto resumed = conversion(again, "run", chosen);
  EXPECT_EQ(resumed->resume(*resumed->newest_state()).step, 0);
  const ConversionHistory whole = resumed->run({});
  EXPECT_TRUE(whole.is_complete);
  EXPECT_EQ(whole.stages.size(), 2);
}

TEST_F(ConversionTest, StopsWhenTheTimeIsUp) {
  ConversionOptions chosen = options();
  VisionTransformer first = student("elu:2");
  ConversionEvents events;
  std::int64_t steps = 0;
  events.keep_going = [&] { return ++steps < 1; };
  EXPECT_FALSE(conversion(first, "run", chosen)->run(events).is_complete);

  // A run that goes on keeps its stages: one step, whose state is judged.
  chosen.max_seconds = 1e-9;
  VisionTransformer again = student("elu:2");
  const auto resumed = conversion(again, "run", chosen);
  const std::int64_t begun = resumed->resume(*resumed->newest_state()).step;
  const ConversionHistory history = resumed->run({});
  EXPECT_FALSE(history.is_complete);
  EXPECT_EQ(history.evaluations.back().stage, "outputs");
  EXPECT_EQ(history.evaluations.back().step, begun + 1);
}

TEST_F(ConversionTest, StagesTakeTheStepsOfTheirTimeAndGoOnWithThemBitForBit) {
  constexpr std::int64_t kAll = 10'000'000;
  ConversionOptions chosen = options();
  chosen.outputs.steps = chosen.finetune.steps = kAll;
  chosen.max_seconds = 3;
  std::map<Stage, std::int64_t> got;
  std::int64_t steps = 0;
  ConversionEvents events;
  events.on_steps = [&](Stage stage, std::int64_t taken, std::int64_t whole) {
    EXPECT_EQ(whole, kAll);
    EXPECT_LT(taken, kAll);
    EXPECT_GE(taken, 10);
    got[stage] = taken;
  };
  events.keep_going = [&] { return !got.contains(Stage::finetune) || ++steps < 2; };
  VisionTransformer model = student("elu:2");
  const auto run = conversion(model, "run", chosen);
  const ConversionHistory history = run->run(events);
  ASSERT_EQ(history.stages.size(), 2);
  EXPECT_EQ(history.stages[0].planned_steps, got.at(Stage::outputs));
  EXPECT_EQ(history.stages[1].planned_steps, got.at(Stage::finetune));
  EXPECT_EQ(run->planned_steps(), got.at(Stage::outputs) + got.at(Stage::finetune));

  // The state has them; its steps are what they were, whatever the time is now.
  chosen.max_seconds = 0;
  const auto copy = [&](const char* name) {
    std::filesystem::copy(folder_.path() / "run", folder_.path() / name,
                          std::filesystem::copy_options::recursive);
  };
  copy("parts");
  copy("smaller");
  double last_rate = 1;
  const auto go_on = [&](const std::string& name, std::int64_t most) {
    VisionTransformer again = student("elu:2");
    const auto resumed = conversion(again, name, chosen);
    resumed->resume(*resumed->newest_state());
    EXPECT_EQ(resumed->planned_steps(), run->planned_steps());
    ConversionEvents of_rest;
    of_rest.on_steps = [&](Stage, std::int64_t, std::int64_t) { ADD_FAILURE() << "chosen anew"; };
    of_rest.keep_going = [&] { return --most > 0; };
    of_rest.on_record = [&](Stage, std::int64_t, const StepRecord& record) {
      last_rate = record.learning_rate;
    };
    return resumed->run(of_rest);
  };
  const ConversionHistory rest = go_on("run", kAll);
  EXPECT_TRUE(rest.is_complete);
  EXPECT_EQ(rest.stages[1].steps, got.at(Stage::finetune));
  EXPECT_LT(last_rate, 1e-3) << "the schedule went to its end";
  EXPECT_FALSE(go_on("parts", 3).is_complete);
  EXPECT_TRUE(go_on("parts", kAll).is_complete);
  for (const char* file : {"last.safetensors", "best.safetensors"})
    EXPECT_EQ(read_bytes(folder_.path() / "parts" / file),
              read_bytes(folder_.path() / "run" / file));

  // Steps of half as many pictures are twice as many.
  chosen.finetune.batch_size = 4;
  VisionTransformer other = student("elu:2");
  const auto smaller = conversion(other, "smaller", chosen);
  smaller->resume(*smaller->newest_state());
  EXPECT_EQ(smaller->planned_steps(), got.at(Stage::outputs) + 2 * got.at(Stage::finetune));
}

TEST_F(ConversionTest, ALookAtSharedTokensIsALookAtThePictures) {
  VisionTransformer model = student("hydra:2");
  AgreementMeter whole(teacher_, *held_out_, *group_, at::kCPU, Autocast::off);
  AgreementMeter shared(teacher_, *held_out_, *group_, at::kCPU, Autocast::off, {}, 2);
  const Agreement expected = whole.measure(*model);
  const Agreement found = shared.measure(*model);
  EXPECT_EQ(found.top1, expected.top1);
  EXPECT_NEAR(found.divergence, expected.divergence, 1e-5);
}

TEST_F(ConversionTest, GoesOnWithAsManyPicturesWhereAStepHasOthers) {
  ConversionOptions chosen = options();
  chosen.outputs.steps = 0;
  chosen.finetune = {.steps = 8, .learning_rate = 1e-3, .batch_size = 4, .evaluations = 2};
  VisionTransformer model = student("elu:2");
  ConversionEvents events;
  std::int64_t steps = 0;
  events.keep_going = [&] { return ++steps < 6; };
  conversion(model, "run", chosen)->run(events);

  chosen.finetune.steps = 16;  // as half as many processes would need
  chosen.finetune.batch_size = 2;
  VisionTransformer again = student("elu:2");
  const auto resumed = conversion(again, "run", chosen);
  const Resumption resumption = resumed->resume(*resumed->newest_state());
  EXPECT_EQ(resumption.step, 12);
  EXPECT_EQ(resumption.steps_done, 6);
  steps = 0;
  events.keep_going = [&] { return ++steps < 100; };
  const ConversionHistory history = resumed->run(events);
  EXPECT_TRUE(history.is_complete);
  EXPECT_EQ(steps, 4);
  ASSERT_EQ(history.stages.size(), 1);
  EXPECT_EQ(history.stages[0].steps, 16);
  EXPECT_EQ(history.stages[0].images, 32);
  std::vector<std::int64_t> looks;
  for (const Evaluation& look : history.evaluations)
    if (look.stage == "finetune") looks.push_back(look.step);
  EXPECT_EQ(looks, (std::vector<std::int64_t>{8, 16}));

  // Fewer steps: the new states have smaller numbers than the old ones.
  VisionTransformer fewer = student("elu:2");
  ConversionOptions shorter = options();
  shorter.outputs.steps = 0;
  shorter.finetune = {.steps = 8, .learning_rate = 1e-3, .batch_size = 4, .evaluations = 2};
  steps = 0;
  events.keep_going = [&] { return ++steps < 6; };
  VisionTransformer first = student("elu:2");
  conversion(first, "shorter", shorter)->run(events);
  shorter.finetune.steps = 4;
  const auto halved = conversion(fewer, "shorter", shorter);
  EXPECT_EQ(halved->resume(*halved->newest_state()).step, 3);
  EXPECT_EQ(halved->newest_state()->filename(), "step-3.state.safetensors");
}

/// Steps whose products have no room would become any number, a negative one included.
TEST_F(ConversionTest, RefusesAStateBeyondTheEndOfItsStage) {
  ConversionOptions chosen = options();
  VisionTransformer model = student("elu:2");
  std::int64_t steps = 0;
  ConversionEvents events;
  events.keep_going = [&] { return ++steps < 3; };
  conversion(model, "run", chosen)->run(events);
  ++chosen.outputs.steps;  // the state's steps are counted anew
  const auto resumed = conversion(model, "run", chosen);
  const std::filesystem::path file = *resumed->newest_state();
  const std::filesystem::path kept = folder_.path() / "kept";
  std::filesystem::copy_file(file, kept);
  const auto with = [&](const std::string& key, const std::function<void(std::string&)>& change) {
    const auto state = checkpoint::SafetensorsFile::open(kept);
    checkpoint::Metadata fields = state.metadata();
    change(fields.at(key));
    checkpoint::write_safetensors(file, state.tensors(), fields);
  };
  with("conversion.step", [](std::string& step) { step = "9"; });
  EXPECT_ERROR(resumed->resume(file), decode_failed, "beyond the end of its stage");
  with("conversion.history", [](std::string& history) {
    const std::string planned = R"("planned_steps":8)";
    ASSERT_NE(history.find(planned), std::string::npos) << history;
    history.replace(history.find(planned), planned.size(), R"("planned_steps":1099511627776)");
  });
  EXPECT_ERROR(resumed->resume(file), decode_failed, "beyond the end of its stage");
  std::filesystem::rename(kept, file);
  EXPECT_NO_THROW(resumed->resume(file));
}

TEST_F(ConversionTest, EveryConvertedLayerLearns) {
  ConversionOptions chosen = options();
  chosen.train_from = 2;
  VisionTransformer model = student("elu:1-2");
  EXPECT_ERROR(conversion(model, "run", chosen), invalid_argument, "layer 1 is converted");
}

TEST_F(ConversionTest, WorksForEveryMechanism) {
  ConversionOptions chosen = options();
  chosen.maps.steps = 2;
  chosen.outputs.steps = 2;
  chosen.finetune.steps = 2;
  for (const Autocast autocast : {Autocast::off, Autocast::bfloat16}) {
    chosen.trainer.autocast = autocast;
    for (const MechanismEntry* entry : mechanisms()) {
      if (entry->name == "softmax") continue;
      VisionTransformer model = student(entry->name + ":1-2");
      const bool has_maps = !converted_layers(small_config(), *model).maps.empty();
      EXPECT_TRUE(has_maps || (entry->name != "hedgehog" && entry->name != "t2r")) << entry->name;
      const auto run = conversion(model, entry->name, chosen);
      run->forget_states();
      const ConversionHistory history = run->run({});
      EXPECT_TRUE(history.is_complete) << entry->name;
      EXPECT_EQ(history.stages.size(), has_maps ? 3 : 2) << entry->name;
      for (const Evaluation& evaluation : history.evaluations)
        EXPECT_TRUE(std::isfinite(evaluation.agreement.divergence)) << entry->name;
    }
  }
}

TEST_F(ConversionTest, WorksForOtherShapes) {
  const std::vector<std::function<void(VitConfig&)>> shapes{
      [](VitConfig& c) { c.distilled = true; },
      [](VitConfig& c) {
        c.global_pool = Pooling::avg;
        c.fc_norm = true;
      },
      [](VitConfig& c) { c.reg_tokens = 2; }, [](VitConfig& c) { c.layer_scale = true; },
      [](VitConfig& c) { c.qkv_bias = false; }};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    VitConfig config = small_config();
    shapes[i](config);
    Teacher teacher(random_model(config));
    apply_attention_spec("hedgehog:1,hydra:2", config.attention);
    VisionTransformer model = student_of(teacher.model(), config);
    Conversion run(teacher, *model, pictures_, *held_out_, *group_,
                   folder_.path() / std::to_string(i), {}, options());
    const ConversionHistory history = run.run({});
    EXPECT_LT(history.best_evaluation().agreement.divergence, history.start().agreement.divergence)
        << i;
  }
}

TEST(ConversionHistory, IsReadBack) {
  ConversionHistory history;
  history.evaluations = {{"start", 0, 1.5, {12.5, 0.25}}, {"maps", 650, 100, {50, 0.1}}};
  history.stages = {{"maps", 650, 600, 9600, 99.5, true}, {"outputs", 100, 9, 288, 1.5, false, 32}};
  history.layers = {{3, "hydra", 1.25, 0.5}};
  history.best = 1;
  history.seconds = 123.456;
  history.held_out_images = 480;
  const ConversionHistory again = history_from_json(to_json(history), "here");
  EXPECT_EQ(to_json(again), to_json(history));
  EXPECT_EQ(again.best_evaluation().agreement.divergence, 0.1);
  EXPECT_TRUE(again.stages[0].ended_early);
  EXPECT_EQ(again.stages[1].pictures_of_a_step, 32);
  history.evaluations = {{"start", 0, 1.5, {0, 0, Target::features, 0.5, 0.25}},
                         {"maps", 650, 100, {}}};
  const ConversionHistory features = history_from_json(to_json(history), "here");
  EXPECT_EQ(to_json(features), to_json(history));
  EXPECT_EQ(features.start().agreement.target, Target::features);
  EXPECT_EQ(features.start().agreement.patch_cosine, 0.25);
  // Earlier versions knew logits alone and said nothing of a target.
  std::string old = to_json(again);
  const std::string target = R"("target":"logits",)";
  while (old.find(target) != std::string::npos) old.erase(old.find(target), target.size());
  EXPECT_EQ(old.find("target"), std::string::npos) << old;
  EXPECT_EQ(to_json(history_from_json(old, "here")), to_json(again));
  EXPECT_ERROR(history_from_json("{", "here"), decode_failed, "here");
  history.best = 2;
  EXPECT_ERROR(history_from_json(to_json(history), "here"), decode_failed, "best");
}

constexpr StageOptions kWhole{
    .steps = 1700, .learning_rate = 1e-3, .batch_size = 32, .warmup_steps = 85, .evaluations = 10};

double share(const std::vector<Stage>& stages) { return time_share(stages); }

TEST(ConversionPlanTest, AStageHasAFixedPartOfTheTimeLeftAndTheLastOneAllOfIt) {
  EXPECT_DOUBLE_EQ(share({Stage::outputs, Stage::finetune}), 1.0 / 9);
  EXPECT_DOUBLE_EQ(share({Stage::maps, Stage::finetune}), 3.0 / 11);
  EXPECT_DOUBLE_EQ(share({Stage::finetune, Stage::sizes}), 2.0 / 3);
  for (const Stage stage :
       {Stage::maps, Stage::outputs, Stage::finetune, Stage::sizes, Stage::exits})
    EXPECT_EQ(share({stage}), 1);
}

TEST(ConversionPlanTest, StepsAndTheirLooksFillTheTimeAndNoMore) {
  const double cost = 0.5 + 5.0 * 10 / 1700;
  for (const double seconds : {20.0, 60.0, 570.0, 895.0}) {
    const auto steps = static_cast<double>(steps_within(seconds, 0.5, 5, kWhole));
    EXPECT_LE(steps * cost, seconds);
    EXPECT_GT((steps + 1) * cost, seconds);
  }
  for (const double seconds : {910.0, 1e300})
    EXPECT_EQ(steps_within(seconds, 0.5, 5, kWhole), 1700);
  EXPECT_EQ(steps_within(1, 0, 0, kWhole), 1700) << "no clock is that fine";
  for (const double seconds : {-1e300, 0.0, 4.0}) {
    EXPECT_EQ(steps_within(seconds, 0.5, 5, kWhole), 10);
    EXPECT_EQ(steps_within(seconds, 0.5, 5, {.steps = 4}), 4) << "all of its own";
  }
}

TEST(ConversionPlanTest, WarmUpAndLooksShrinkWithTheSteps) {
  const StageOptions half = shortened(kWhole, 850, /*ends_run=*/true);
  EXPECT_EQ(half.steps, 850);
  EXPECT_EQ(half.warmup_steps, 42);
  EXPECT_EQ(half.evaluations, 5);
  EXPECT_EQ(half.learning_rate, 1e-3);
  EXPECT_EQ(half.batch_size, 32);
  EXPECT_EQ(shortened(kWhole, 20, true).evaluations, 1) << "the run ends with a look";
  EXPECT_EQ(shortened(kWhole, 20, false).evaluations, 0);
  EXPECT_EQ(shortened({.steps = 2, .warmup_steps = 2}, 2, true).warmup_steps, 1);
}

}  // namespace
}  // namespace hydrascope::model::training
