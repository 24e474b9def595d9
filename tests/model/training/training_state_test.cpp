#include "model/training/training_state.h"

#include "model/training/parameter_average.h"
#include "model/training/parameter_groups.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

namespace fs = std::filesystem;

using Names = std::set<std::string>;

/// Hidden ones too: nothing temporary may be left.
Names names_in(const fs::path& folder) {
  Names names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

std::string newest_in(const StateFolder& states) {
  const auto file = states.newest();
  return file ? file->filename().string() : "none";
}

/// A model that is unlike `random_model`.
VisionTransformer blank_model(const VitConfig& config = small_config()) {
  VisionTransformer model = random_model(config);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : model->parameters()) parameter.zero_();
  return model;
}

void expect_same_weights(VisionTransformer& a, VisionTransformer& b) {
  const auto of_a = named_tensors(*a);
  const auto of_b = named_tensors(*b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (std::size_t i = 0; i < of_a.size(); ++i)
    EXPECT_TRUE(at::equal(of_a[i].second, of_b[i].second)) << of_a[i].first;
}

TrainingState state_at(std::int64_t step) {
  TrainingState state;
  state.step = step;
  state.tensors.emplace_back("momentum", at::arange(4, at::kFloat) + static_cast<double>(step));
  state.fields["seconds"] = "12.5";
  return state;
}

Names bests_in(const fs::path& folder) {
  Names names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("best"); });
  return names;
}

/// Writes the states of some steps, of a model whose weights do not matter.
void save_steps(StateFolder& states, const std::vector<std::int64_t>& steps) {
  const VisionTransformer model = random_model(small_config());
  for (const std::int64_t step : steps) states.save(*model, checkpoint::Metadata{}, state_at(step));
}

/// The tensors that a run updates, and its states of them.
struct Trained {
  explicit Trained(VisionTransformer its_model)
      : model(std::move(its_model)),
        optimizer(parameter_groups(*model, ParameterGroupOptions{}), OptimizerOptions{}),
        average(parameters(), 0.9, /*warmup=*/false) {}

  [[nodiscard]] NamedTensors parameters() const {
    NamedTensors all;
    for (const ParameterGroup& group : optimizer.groups())
      all.insert(all.end(), group.parameters.begin(), group.parameters.end());
    return all;
  }
  [[nodiscard]] NamedTensors state() const {
    NamedTensors all = optimizer.state();
    for (const auto& entry : average.state()) all.push_back(entry);
    return all;
  }
  void update() {
    for (const auto& [name, parameter] : parameters())
      parameter.mutable_grad() = at::randn_like(parameter).detach();
    optimizer.step(0.01);
    average.update();
  }

  VisionTransformer model;
  Optimizer optimizer;
  ParameterAverage average;
};

TEST(TrainingStateTest, ComesBackAsItWas) {
  const TemporaryFolder folder;
  Trained trained(random_model(small_config("hedgehog:0,softmax:1,hydra:2")));
  at::manual_seed(3);
  for (int i = 0; i < 2; ++i) trained.update();
  TrainingState state;
  state.step = 7;
  state.tensors = trained.state();
  state.fields = {{"seconds", "12.25"}, {"text", "\"quoted\"\n\xC3\xA4"}};
  StateFolder states(folder.path() / "a" / "run");
  states.save(*trained.model, {{"about", "a test"}}, state);

  ASSERT_TRUE(states.newest().has_value());
  const fs::path weights = states.folder() / "step-7.safetensors";
  for (const fs::path& file : {*states.newest(), weights}) {
    SCOPED_TRACE(file.string());
    Trained loaded(blank_model(small_config("hedgehog:0,softmax:1,hydra:2")));
    const TrainingState found = load_training_state(file, *loaded.model);
    EXPECT_EQ(found.step, 7);
    EXPECT_EQ(found.fields, state.fields);
    expect_same_weights(loaded.model, trained.model);
    EXPECT_EQ(found.tensors.size(), state.tensors.size());
    loaded.optimizer.load_state(found.tensors);
    loaded.average.load_state(found.tensors);
    const NamedTensors found_state = loaded.state();
    ASSERT_EQ(found_state.size(), state.tensors.size());
    for (std::size_t i = 0; i < found_state.size(); ++i) {
      EXPECT_EQ(found_state[i].first, state.tensors[i].first);
      EXPECT_TRUE(at::equal(found_state[i].second, state.tensors[i].second))
          << found_state[i].first;
    }
  }
  // The copy that other commands read.
  VisionTransformer last = blank_model(small_config("hedgehog:0,softmax:1,hydra:2"));
  load_weights(states.folder() / "last.safetensors", *last);
  expect_same_weights(last, trained.model);
  EXPECT_EQ(checkpoint::SafetensorsFile::open(weights).metadata().at("about"), "a test");
}

TEST(TrainingStateTest, KeepsTypesShapesAndScalars) {
  const TemporaryFolder folder;
  TrainingState state;
  state.tensors = {{"double", at::full({2, 1}, 1.0 / 3, at::kDouble)},
                   {"long", at::scalar_tensor(std::int64_t{1} << 60, at::kLong)},
                   {"float", at::arange(6, at::kFloat).view({2, 3}).t()}};
  StateFolder states(folder.path());
  VisionTransformer model = random_model(small_config());
  states.save(*model, checkpoint::Metadata{}, state);
  const TrainingState found = load_training_state(*states.newest(), *model);
  ASSERT_EQ(found.tensors.size(), 3);
  for (const auto& [name, tensor] : found.tensors) {
    const auto wanted =
        std::ranges::find(state.tensors, name, [](const auto& entry) { return entry.first; });
    ASSERT_NE(wanted, state.tensors.end()) << name;
    EXPECT_EQ(tensor.scalar_type(), wanted->second.scalar_type()) << name;
    EXPECT_EQ(tensor.sizes(), wanted->second.sizes()) << name;
    EXPECT_TRUE(at::equal(tensor, wanted->second)) << name;
  }
  state.tensors = {{"half", at::zeros({1}, at::kHalf)}};
  EXPECT_ERROR(states.save(*model, checkpoint::Metadata{}, state), internal, "half");
}

// In the order of numbers: "step-10" comes before "step-9" as text.
TEST(StateFolderTest, KeepsTheNewestStates) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 2);
  EXPECT_EQ(newest_in(states), "none");
  save_steps(states, {2, 9, 10});
  EXPECT_EQ(newest_in(states), "step-10.state.safetensors");
  EXPECT_EQ(names_in(folder.path()),
            (Names{"last.safetensors", "step-9.safetensors", "step-9.state.safetensors",
                   "step-10.safetensors", "step-10.state.safetensors"}));
  EXPECT_EQ(read_bytes(folder.path() / "last.safetensors"),
            read_bytes(folder.path() / "step-10.safetensors"));

  StateFolder one(folder.path());
  save_steps(one, {11});
  EXPECT_EQ(names_in(folder.path()),
            (Names{"last.safetensors", "step-11.safetensors", "step-11.state.safetensors"}));
}

TEST(StateFolderTest, ClearedOfStatesKeepsTheBestWeights) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 3);
  save_steps(states, {5, 8});
  VisionTransformer best = random_model(small_config());
  states.save_best(*best, checkpoint::Metadata{}, 8);
  folder.write("step-6.safetensors", "weights without a state");
  states.clear();
  EXPECT_EQ(newest_in(states), "none");
  EXPECT_EQ(names_in(folder.path()), (Names{"best.safetensors", "last.safetensors"}));
  VisionTransformer found = blank_model();
  load_weights(states.best(), *found);
  expect_same_weights(found, best);
  // An older run's later steps would pass for newer ones.
  save_steps(states, {1});
  EXPECT_EQ(newest_in(states), "step-1.state.safetensors");
}

TEST(StateFolderTest, ForgetsLaterStates) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 5);
  save_steps(states, {3, 6, 9, 12});
  states.forget_after(6);
  EXPECT_EQ(names_in(folder.path()),
            (Names{"last.safetensors", "step-3.safetensors", "step-3.state.safetensors",
                   "step-6.safetensors", "step-6.state.safetensors"}));
  states.forget_after(2);
  EXPECT_EQ(newest_in(states), "none");
}

// A state that a run goes back to finds the weights that were the best then.
TEST(StateFolderTest, KeepsTheBestWeightsThatItsStatesKnow) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 2);
  std::map<std::int64_t, VisionTransformer> models;
  const auto save_best = [&](std::int64_t step) {
    at::manual_seed(static_cast<std::uint64_t>(step));
    const VisionTransformer model = random_model(small_config());
    states.save_best(*model, checkpoint::Metadata{}, step);
    models.insert_or_assign(step, model);
  };
  const auto expect_best = [&](std::int64_t step) {
    VisionTransformer found = blank_model();
    load_weights(states.best(), *found);
    expect_same_weights(found, models.at(step));
  };
  save_best(0);
  // Else a run that is killed here would look like a model that somebody keeps there.
  EXPECT_EQ(bests_in(folder.path()), Names{"best-0.safetensors"});
  save_steps(states, {2});
  expect_best(0);
  save_best(3);
  save_steps(states, {4});
  save_best(5);
  EXPECT_EQ(bests_in(folder.path()), (Names{"best-0.safetensors", "best-3.safetensors",
                                            "best-5.safetensors", "best.safetensors"}));
  save_steps(states, {6});  // 2 is dropped, and what it knew
  EXPECT_EQ(bests_in(folder.path()),
            (Names{"best-3.safetensors", "best-5.safetensors", "best.safetensors"}));
  expect_best(5);
  states.forget_after(4);
  expect_best(3);
  EXPECT_EQ(bests_in(folder.path()), (Names{"best-3.safetensors", "best.safetensors"}));
  // The steps get other numbers, as with another number of processes.
  save_steps(states, {2});
  states.keep_only(2);
  EXPECT_EQ(newest_in(states), "step-2.state.safetensors");
  EXPECT_EQ(bests_in(folder.path()), (Names{"best-2.safetensors", "best.safetensors"}));
  states.forget_after(2);
  expect_best(3);
  // Nothing was judged before that.
  states.forget_after(1);
  EXPECT_EQ(bests_in(folder.path()), Names{});
}

TEST(StateFolderTest, WhatWasJustWrittenStays) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 1);
  save_steps(states, {9, 4});
  EXPECT_TRUE(names_in(folder.path()).contains("step-4.state.safetensors"));
  EXPECT_TRUE(names_in(folder.path()).contains("step-4.safetensors"));
}

// A process that is killed after it wrote the weights and before it wrote the state.
TEST(StateFolderTest, AKillBetweenWeightsAndStateLeavesTheStateBefore) {
  const TemporaryFolder folder;
  StateFolder states(folder.path(), 2);
  save_steps(states, {3});
  fs::copy_file(folder.path() / "step-3.safetensors", folder.path() / "step-5.safetensors");
  // The user's own, which only look alike.
  folder.write("step-final.safetensors");
  folder.write("step-5.txt");
  EXPECT_EQ(newest_in(states), "step-3.state.safetensors");
  VisionTransformer model = blank_model();
  EXPECT_EQ(load_training_state(*states.newest(), *model).step, 3);
  EXPECT_ERROR(load_training_state(folder.path() / "step-5.safetensors", *model), not_found,
               "step-5.state.safetensors");

  save_steps(states, {4});
  EXPECT_EQ(names_in(folder.path()),
            (Names{"last.safetensors", "step-3.safetensors", "step-3.state.safetensors",
                   "step-4.safetensors", "step-4.state.safetensors", "step-final.safetensors",
                   "step-5.txt"}));
}

/// A good state, to be spoiled.
class BrokenStateTest : public ::testing::Test {
 protected:
  BrokenStateTest() : states_(folder_.path()) {
    save_steps(states_, {7});
    file_ = states_.newest().value();
  }

  /// Writes the state again with other fields.
  template <class Change>
  void change_fields(Change change) const {
    const auto contents = checkpoint::SafetensorsFile::open(file_);
    checkpoint::Metadata fields = contents.metadata();
    change(fields);
    checkpoint::write_safetensors(file_, contents.tensors(), fields);
  }

  TemporaryFolder folder_;
  StateFolder states_;
  fs::path file_;
};

TEST_F(BrokenStateTest, ATruncatedStateIsRefused) {
  const std::string bytes = read_bytes(file_);
  VisionTransformer model = blank_model();
  ASSERT_GT(bytes.size(), 100U);
  for (const std::size_t size : {std::size_t{20}, bytes.size() / 2, bytes.size() - 1}) {
    SCOPED_TRACE(size);
    folder_.write(file_.filename(), bytes.substr(0, size));
    EXPECT_ERROR(load_training_state(file_, *model), decode_failed, file_.filename().c_str());
  }
  // Whoever tries an older state next has the weights it had.
  VisionTransformer untouched = blank_model();
  expect_same_weights(model, untouched);
  folder_.write(file_.filename(), bytes);
  EXPECT_EQ(load_training_state(file_, *model).step, 7);
}

TEST_F(BrokenStateTest, AStateWithoutItsStepIsRefused) {
  VisionTransformer model = blank_model();
  change_fields([](checkpoint::Metadata& fields) { fields.erase("training.step"); });
  EXPECT_ERROR(load_training_state(file_, *model), decode_failed, "step");
}

// std::stoll would throw what nobody catches, or take the beginning of the text.
TEST_F(BrokenStateTest, AStepThatIsNoNumberIsRefused) {
  VisionTransformer model = blank_model();
  for (const char* text : {"", "seven", "7x", "7.5", "-1", "99999999999999999999"}) {
    SCOPED_TRACE(text);
    change_fields([&](checkpoint::Metadata& fields) { fields["training.step"] = text; });
    EXPECT_ERROR(load_training_state(file_, *model), decode_failed, file_.filename().c_str());
  }
  change_fields([](checkpoint::Metadata& fields) { fields["training.step"] = "8"; });
  EXPECT_EQ(load_training_state(file_, *model).step, 8);
}

TEST_F(BrokenStateTest, BothFilesAreNeeded) {
  VisionTransformer model = blank_model();
  fs::remove(folder_.path() / "step-7.safetensors");
  EXPECT_ERROR(load_training_state(file_, *model), not_found, "step-7.safetensors");
  EXPECT_ERROR(load_training_state(folder_.path() / "step-6.state.safetensors", *model), not_found,
               "step-6");
}

TEST_F(BrokenStateTest, WeightsOfAnotherModelAreRefused) {
  VisionTransformer converted = random_model(small_config("hedgehog"));
  EXPECT_ERROR(load_training_state(file_, *converted), failed, "another model");
  // A run with other options has another model too; the options are what the user gave.
  EXPECT_ERROR(load_training_state(file_, *converted, R"({"attn":"hedgehog"})"), invalid_argument,
               "other settings");
  VitConfig config = small_config();
  config.num_classes = 6;
  VisionTransformer wider = random_model(config);
  EXPECT_ERROR(load_training_state(file_, *wider), failed, "head.weight");
}

TEST(StateFieldTest, NumbersComeBackWithEveryDigit) {
  for (const double value :
       {0.0, -1.0, 0.1, 1.0 / 3, 1e-300, 123456789.123456789, std::numeric_limits<double>::max()}) {
    const checkpoint::Metadata fields{{"x", to_field(value)}};
    EXPECT_EQ(number_field(fields, "x", "file"), value);
  }
  // The loss of a run that diverged must not make its state unreadable.
  const checkpoint::Metadata lost{{"x", to_field(std::numeric_limits<double>::quiet_NaN())}};
  EXPECT_TRUE(std::isnan(number_field(lost, "x", "file")));
  EXPECT_EQ(integer_field({{"n", "-12"}}, "n", "file"), -12);
}

TEST(StateFieldTest, WhatIsNoNumberIsRefused) {
  for (const char* text : {"", " 1", "1 ", "0x10", "one", "1,5"}) {
    SCOPED_TRACE(text);
    const checkpoint::Metadata fields{{"field", text}};
    EXPECT_ERROR(number_field(fields, "field", "the file"), decode_failed, "field", "the file");
    EXPECT_ERROR(integer_field(fields, "field", "the file"), decode_failed, "field", "the file");
  }
  const checkpoint::Metadata none;
  EXPECT_ERROR(number_field(none, "field", "the file"), decode_failed, "field", "the file");
  EXPECT_ERROR(integer_field(none, "field", "the file"), decode_failed, "field", "the file");
}

}  // namespace
}  // namespace hydrascope::model::training
