#include "app/train/progress_state.h"

#include "app/train/session.h"
#include "model/training/training_state.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <limits>

namespace hydrascope::app {
namespace {

RunLength length(std::int64_t steps_per_epoch, std::int64_t pictures_of_a_step) {
  RunLength length;
  length.steps_per_epoch = steps_per_epoch;
  length.pictures_of_a_step = pictures_of_a_step;
  length.epochs = 10;
  return length;
}

TEST(ProgressState, IsReadBack) {
  const ProgressState written{.seconds = 1.0 / 3,
                              .updates = 17,
                              .best_top1 = 61.7,
                              .best_loss = 0.7,
                              .best_epoch = 2,
                              .judged_epochs = 3,
                              .epoch_loss = 5.1,
                              .epoch_steps = 4};
  checkpoint::Metadata fields;
  write_fields(written, length(5, 8), fields);
  const ProgressState read = read_fields(fields, "a.state");
  EXPECT_EQ(read.seconds, written.seconds);
  EXPECT_EQ(read.updates, 17);
  EXPECT_EQ(read.best_top1, written.best_top1);
  EXPECT_EQ(read.best_loss, written.best_loss);
  EXPECT_EQ(read.best_epoch, 2);
  EXPECT_EQ(read.judged_epochs, 3);
  EXPECT_EQ(read.epoch_loss, written.epoch_loss);
  EXPECT_EQ(read.epoch_steps, 4);
  fields["updates"] = "many";
  EXPECT_ERROR(read_fields(fields, "a.state"), decode_failed, "updates of the state is no number");
  fields.erase("updates");
  EXPECT_ERROR(read_fields(fields, "a.state"), decode_failed, "no updates");
}

TEST(ProgressState, TheLowerLossIsTheBetterOfEqualTop1) {
  ProgressState best;
  EXPECT_TRUE(best.is_surpassed_by(0, 9));
  best.best_top1 = 50;
  best.best_loss = 0.7;
  EXPECT_TRUE(best.is_surpassed_by(50, 0.6));
  EXPECT_FALSE(best.is_surpassed_by(50, 0.7));
  EXPECT_FALSE(best.is_surpassed_by(50, 0.8));
  EXPECT_TRUE(best.is_surpassed_by(51, 0.8));
  EXPECT_FALSE(best.is_surpassed_by(49, 0.1));
  EXPECT_FALSE(best.is_surpassed_by(51, std::numeric_limits<double>::quiet_NaN()));
  // A state of version 0.1 does not say its best's loss.
  checkpoint::Metadata fields;
  write_fields(best, length(5, 8), fields);
  fields.erase("best_loss");
  const ProgressState old = read_fields(fields, "a.state");
  EXPECT_FALSE(old.is_surpassed_by(50, 0.1));
  EXPECT_TRUE(old.is_surpassed_by(51, 0.1));
}

/// 100 pictures: 12 steps of 8, or 6 of 16 (four pictures are left out of either epoch).
TEST(ProgressState, OtherProcessesGoOnAtTheSamePicture) {
  checkpoint::Metadata fields;
  write_fields({}, length(12, 8), fields);
  EXPECT_EQ(equivalent_step(31, fields, length(12, 8), ""), 31);
  EXPECT_EQ(equivalent_step(24, fields, length(6, 16), ""), 12);  // two epochs are two epochs
  EXPECT_EQ(equivalent_step(28, fields, length(6, 16), ""), 14);
  EXPECT_EQ(equivalent_step(29, fields, length(6, 16), ""), 14);  // half a step is seen again
  write_fields({}, length(6, 16), fields);
  EXPECT_EQ(equivalent_step(14, fields, length(12, 8), ""), 28);
  // 33 steps of 3 see more of an epoch than 12 steps of 8: it does not end before it is judged.
  write_fields({}, length(33, 3), fields);
  EXPECT_EQ(equivalent_step(32, fields, length(12, 8), ""), 11);
  write_fields({}, length(0, 3), fields);
  EXPECT_ERROR(equivalent_step(32, fields, length(12, 8), ""), decode_failed, "without steps");
}

/// Numbers whose products have no room would go on at any step, a negative one included.
TEST(ProgressState, RefusesStepsBeyondAllRuns) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  checkpoint::Metadata fields;
  write_fields({}, length(12, 8), fields);
  EXPECT_ERROR(equivalent_step(kHuge, fields, length(6, 16), "a.state"), decode_failed, "a.state");
  write_fields({}, length(kHuge, 8), fields);
  EXPECT_ERROR(equivalent_step(12, fields, length(6, 16), "a.state"), decode_failed);
  write_fields({}, length(12, kHuge), fields);
  EXPECT_ERROR(equivalent_step(12, fields, length(6, 16), "a.state"), decode_failed);
}

TEST(Identity, KnowsWhatDecidesARunAndNothingElse) {
  const std::vector<model::training::TrainingPicture> pictures{{"set/a/1.jpg", 0, 0},
                                                               {"set/b/2.jpg", 1, 0}};
  const checkpoint::Metadata about{{"parent_sha256", "weights"}};
  const auto identity = [&](const std::string& recipe) {
    return identity_of_run("convert", recipe, about, pictures);
  };
  const std::string state = identity(R"({"lr":1e-4,"opt":"adamw","batch-size":8})");
  const auto check = [&](const std::string& wanted) {
    model::training::require_same_run(wanted, state, "a.state");
  };
  EXPECT_NO_THROW(check(identity(R"({"lr":0.0001,"opt":"adamw","batch-size":16})")));
  EXPECT_ERROR(check(identity(R"({"lr":2e-4,"opt":"adamw"})")), invalid_argument, "lr");
  EXPECT_ERROR(check(identity(R"({"lr":1e-4})")), invalid_argument, "opt");
  EXPECT_ERROR(check(identity(R"({"lr":1e-4,"opt":"adamw","aa":"rand"})")), invalid_argument, "aa");
  const std::string recipe = R"({"lr":1e-4,"opt":"adamw"})";
  EXPECT_ERROR(check(identity_of_run("convert", recipe, {{"parent_sha256", "others"}}, pictures)),
               invalid_argument, "weights");
  EXPECT_ERROR(
      check(identity_of_run("convert", recipe,
                            {{"parent_sha256", "weights"}, {"transform", "other"}}, pictures)),
      invalid_argument, "transform");
  EXPECT_ERROR(check(identity_of_run("convert", recipe, about, {pictures[0]})), invalid_argument,
               "pictures");
  EXPECT_ERROR(check(identity(R"({"lr":1e-4,"opt":"adamw","epochs":2})")), invalid_argument,
               "epochs");
  EXPECT_NO_THROW(model::training::require_same_run(
      identity_of_run("train", R"({"lr":1e-4,"epochs":2})", about, pictures),
      identity_of_run("train", R"({"lr":1e-4,"epochs":3})", about, pictures), "a.state"))
      << "a training may go on for more epochs";
  // The folder may lie elsewhere.
  EXPECT_NO_THROW(check(identity_of_run("convert", recipe, about,
                                        {{"/moved/a/1.jpg", 0, 0}, {"/moved/b/2.jpg", 1, 0}})));
  EXPECT_ERROR(model::training::require_same_run(state, "", "a.state"), invalid_argument,
               "other settings");
}

}  // namespace
}  // namespace hydrascope::app
