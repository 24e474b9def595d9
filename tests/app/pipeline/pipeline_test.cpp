#include "app/pipeline/pipeline.h"

#include "model/inference/classifier.h"
#include "model/transform.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/tensor_match.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <thread>

namespace hydrascope::app {
namespace pipeline_test {

/// A classifier small enough to run hundreds of pictures in a blink.
model::Classifier small_classifier(const testing::TemporaryFolder& folder) {
  model::VitConfig config;
  config.arch = "small";
  config.img_height = config.img_width = 32;
  config.patch_size = 8;
  config.embed_dim = 16;
  config.num_heads = 2;
  config.depth = 1;
  config.num_classes = 4;
  at::manual_seed(0);
  const model::VisionTransformer made(config);
  const auto file = folder.path() / "small.safetensors";
  checkpoint::save_checkpoint(file, *made, checkpoint::Dtype::F32, {});
  return model::Classifier(config, checkpoint::Checkpoint::open(file), {});
}

struct Outcome {
  std::vector<PipelineResult> results;
  PipelineTiming timing;
};

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest() {
    options_.transform.img_size = {32, 32};
    options_.transform.patch_size = 8;
    options_.workers = 3;
  }

  Input file(int index, int width = 40, int height = 30) {
    const std::string name = std::to_string(index) + ".ppm";
    return {name, folder_.write(name, testing::ppm(width, height, static_cast<unsigned>(index))),
            false, std::nullopt, ""};
  }

  Outcome run(const std::vector<Input>& inputs) {
    Outcome run;
    std::size_t next = 0;
    run.timing = run_pipeline(
        [&]() -> std::optional<Input> {
          return next < inputs.size() ? std::optional(inputs[next++]) : std::nullopt;
        },
        classifier_, options_,
        [&](const PipelineResult& result) {
          run.results.push_back(result);
          return true;
        });
    return run;
  }

  testing::TemporaryFolder folder_;
  model::Classifier classifier_ = small_classifier(folder_);
  PipelineOptions options_;
};

/// A GPU's manners: takes bytes, has two batches under way, and no room for more than `most`.
class TwoSlotModel final : public model::inference::Engine {
 public:
  explicit TwoSlotModel(std::int64_t most) : Engine(of_sixteen_tokens()), most_(most) {}

  void submit(const model::inference::ImageBatch& batch) override {
    if (batch.size() > most_) throw Error(ErrorCode::out_of_memory, "does not fit", "a test");
    EXPECT_LT(under_way(), limits().most_under_way);
    EXPECT_TRUE(batch.is_bytes());
    for (const at::Tensor& image : batch.images)
      EXPECT_EQ(image.sizes(), batch.images.front().sizes());
    at::Tensor logits = at::empty({batch.size(), 1});
    for (std::int64_t i = 0; i < batch.size(); ++i)
      logits[i] = batch.images[static_cast<std::size_t>(i)].to(at::kFloat).mean();
    batches_.push_back(logits);
    largest_ = std::max(largest_, under_way());
    sizes_.push_back(batch.size());
  }
  at::Tensor collect() override {
    // Long enough for the workers to gather the next batch.
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    at::Tensor oldest = batches_.front();
    batches_.pop_front();
    return oldest;
  }
  [[nodiscard]] int under_way() const noexcept override {
    return static_cast<int>(batches_.size());
  }
  [[nodiscard]] model::inference::EngineLimits limits() const noexcept override {
    return {2, /*takes_bytes=*/true, 128};
  }

  bool slow_ = false;
  int largest_ = 0;  ///< batches under way at once
  std::vector<std::int64_t> sizes_;

 private:
  static model::VitConfig of_sixteen_tokens() {
    model::VitConfig config;
    config.patch_size = 8;
    config.class_token = false;
    return config;
  }

  std::int64_t most_;
  std::deque<at::Tensor> batches_;
};

std::vector<PipelineResult> results_of(model::inference::Engine& model,
                                       const PipelineOptions& options,
                                       const std::vector<Input>& inputs) {
  std::vector<PipelineResult> results;
  std::size_t next = 0;
  run_pipeline(
      [&]() -> std::optional<Input> {
        return next < inputs.size() ? std::optional(inputs[next++]) : std::nullopt;
      },
      model, options,
      [&](const PipelineResult& result) {
        results.push_back(result);
        return true;
      });
  return results;
}

TEST_F(PipelineTest, SeveralBatchesUnderWayKeepTheirOrder) {
  TwoSlotModel model(100);
  std::vector<Input> inputs;
  for (int i = 0; i < 60; ++i) inputs.push_back(file(i));
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 60U);
  for (const PipelineResult& result : results) {
    ASSERT_FALSE(result.error) << result.message;
    ASSERT_EQ(result.tensor.scalar_type(), at::kByte);
    EXPECT_NEAR(result.logits.item<float>(), result.tensor.to(at::kFloat).mean().item<float>(),
                0.01)
        << result.input.given;
    EXPECT_GE(result.seconds, 0);
    // Whoever asks what the model saw gets the numbers that a model without bytes is handed.
    const at::Tensor input = model_input(options_, result);
    EXPECT_TRUE(at::equal(
        input,
        image::apply_transform(options_.transform, image::read_picture(result.input.path, {}))));
  }
}

TEST_F(PipelineTest, TheNextBatchIsUnderWayWhileOneIsComputed) {
  TwoSlotModel model(100);
  model.slow_ = true;
  options_.batch_size = 20;  // more than the workers hold
  std::vector<Input> inputs;
  for (int i = 0; i < 200; ++i) inputs.push_back(file(i));
  EXPECT_EQ(results_of(model, options_, inputs).size(), 200U);
  EXPECT_EQ(model.largest_, 2);
  // A reader that the system does not let run looks like one that waits for its next input, and
  // what is there is computed then: on a loaded machine a batch may be split, not most of them.
  EXPECT_LT(model.sizes_.size(), 20U);
  EXPECT_EQ(std::accumulate(model.sizes_.begin(), model.sizes_.end(), std::int64_t{0}), 200);
}

TEST_F(PipelineTest, ARunThatEndsEarlyLeavesNothingUnderWay) {
  TwoSlotModel model(100);
  options_.batch_size = 4;
  std::vector<Input> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(file(i));
  std::size_t next = 0;
  run_pipeline([&]() -> std::optional<Input> { return inputs[next++ % inputs.size()]; }, model,
               options_, [](const PipelineResult&) { return false; });
  EXPECT_EQ(model.under_way(), 0);
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 40U);
  for (const PipelineResult& result : results)
    EXPECT_NEAR(result.logits.item<float>(), result.tensor.to(at::kFloat).mean().item<float>(),
                0.01);
}

TEST_F(PipelineTest, OutOfMemoryEndsARunThatMustNotHalve) {
  TwoSlotModel model(3);
  options_.batch_size = 8;
  options_.halve_batches = false;
  std::vector<Input> inputs;
  for (int i = 0; i < 16; ++i) inputs.push_back(file(i));
  EXPECT_ERROR(results_of(model, options_, inputs), out_of_memory, "does not fit");
}

TEST_F(PipelineTest, OutOfMemoryHalvesTheBatchAndSaysSo) {
  TwoSlotModel model(3);
  std::vector<std::string> notices;
  options_.notice = [&](const std::string& text) { notices.push_back(text); };
  options_.batch_size = 8;
  std::vector<Input> inputs;
  for (int i = 0; i < 20; ++i) inputs.push_back(file(i));
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(results[i].error) << results[i].message;
    EXPECT_EQ(results[i].input.given, std::to_string(i) + ".ppm");
  }
  ASSERT_EQ(notices.size(), 2U) << "8, then 4; 2 fit";
  EXPECT_NE(notices[0].find("8 pictures of 32x32 at once, going on with 4"), std::string::npos);
  EXPECT_EQ(std::ranges::max(model.sizes_), 2);
}

TEST_F(PipelineTest, BytesOfOneModelSizeAndSeveralSizesOfTheirOwnAreNotMixed) {
  TwoSlotModel model(100);
  options_.transform.native = true;  // padded to multiples of 8 by the model
  options_.batch_size = 4;
  std::vector<Input> inputs;
  for (int i = 0; i < 24; ++i) inputs.push_back(file(i, 24 - i % 3, 16));
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 24U);
  for (std::size_t i = 0; i < 24; ++i) {
    ASSERT_FALSE(results[i].error) << results[i].message;
    EXPECT_EQ(results[i].model_size, (image::Size{16, 24}));
    EXPECT_EQ(results[i].tensor.size(1), 24 - static_cast<std::int64_t>(i) % 3);
  }
}

TEST_F(PipelineTest, WhatDoesNotFitAloneFailsAlone) {
  TwoSlotModel model(0);
  const auto results = results_of(model, options_, {file(0), file(1), file(2)});
  ASSERT_EQ(results.size(), 3U);
  for (const PipelineResult& result : results) EXPECT_EQ(result.error, ErrorCode::out_of_memory);
}

TEST_F(PipelineTest, KeepsTheOrderAndTheValues) {
  std::vector<Input> inputs;
  for (int i = 0; i < 100; ++i) inputs.push_back(file(i));
  options_.batch_size = 7;
  const Outcome batched = run(inputs);
  options_.batch_size = 1;
  options_.workers = 1;
  const Outcome single = run(inputs);
  ASSERT_EQ(batched.results.size(), 100U);
  ASSERT_EQ(single.results.size(), 100U);
  EXPECT_EQ(batched.timing.images, 100);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(batched.results[i].input.given, std::to_string(i) + ".ppm");
    EXPECT_TRUE(testing::all_near(batched.results[i].logits, single.results[i].logits, 1e-4)) << i;
  }
}

TEST_F(PipelineTest, FailuresStandInTheirPlace) {
  std::vector<Input> inputs;
  for (int i = 0; i < 20; ++i) inputs.push_back(file(i));
  inputs[0].path = folder_.path() / "missing.ppm";
  inputs[7] = {"seven", folder_.write("seven.jpg", "this is text"), false, std::nullopt, ""};
  inputs[19] = {"nineteen", {}, false, ErrorCode::not_found, "no such file"};
  const Outcome result = run(inputs);
  ASSERT_EQ(result.results.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    const bool bad = i == 0 || i == 7 || i == 19;
    EXPECT_EQ(result.results[i].error.has_value(), bad) << i;
    EXPECT_EQ(result.results[i].logits.defined(), !bad) << i;
  }
  EXPECT_EQ(result.results[0].error, ErrorCode::not_found);
  EXPECT_EQ(result.results[7].error, ErrorCode::unsupported_format);
  EXPECT_EQ(result.results[19].message, "no such file");
  EXPECT_EQ(result.timing.images, 17);
}

TEST_F(PipelineTest, BatchesOnlyEqualSizes) {
  options_.transform.native = true;
  options_.batch_size = 4;
  std::vector<Input> inputs;
  for (int i = 0; i < 30; ++i) inputs.push_back(file(i, 16 + 8 * (i % 3), 24));
  const Outcome result = run(inputs);
  ASSERT_EQ(result.results.size(), 30U);
  for (int i = 0; i < 30; ++i) {
    const PipelineResult& item = result.results[static_cast<std::size_t>(i)];
    EXPECT_FALSE(item.error) << item.message;
    EXPECT_EQ(item.model_size, (image::Size{24, 16 + 8 * (i % 3)}));
  }
}

TEST_F(PipelineTest, ATinyMemoryBudgetOnlySlowsItDown) {
  options_.memory_budget = 1;
  options_.batch_size = 16;
  std::vector<Input> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(file(i));
  EXPECT_EQ(run(inputs).results.size(), 40U);
}

TEST_F(PipelineTest, ReadsNoFurtherAheadThanItsWindow) {
  const Input input = file(0);
  options_.batch_size = 2;
  options_.workers = 2;
  std::atomic<int> read{0};
  int done = 0;
  int furthest = 0;
  run_pipeline(
      [&]() -> std::optional<Input> {
        if (read == 500) return std::nullopt;
        ++read;
        return input;
      },
      classifier_, options_,
      [&](const PipelineResult&) {
        furthest = std::max(furthest, read.load() - done);
        ++done;
        return true;
      });
  EXPECT_EQ(done, 500);
  EXPECT_LE(furthest, 2 * 2 + 2 * 2 + 2);
}

TEST_F(PipelineTest, EndsEarlyWhenAsked) {
  std::vector<Input> inputs;
  for (int i = 0; i < 50; ++i) inputs.push_back(file(i));
  std::size_t next = 0;
  int done = 0;
  run_pipeline(
      [&]() -> std::optional<Input> {
        return next < inputs.size() ? std::optional(inputs[next++]) : std::nullopt;
      },
      classifier_, options_, [&](const PipelineResult&) { return ++done < 5; });
  EXPECT_EQ(done, 5);
}

TEST_F(PipelineTest, NothingInNothingOut) { EXPECT_TRUE(run({}).results.empty()); }

TEST_F(PipelineTest, AnErrorOfTheSourceIsRethrown) {
  EXPECT_ERROR(
      run_pipeline([]() -> std::optional<Input> { throw Error(ErrorCode::failed, "source broke"); },
                   classifier_, options_, [](const PipelineResult&) { return true; }),
      failed, "source broke");
}

TEST_F(PipelineTest, AnErrorOfTheReceiverIsRethrown) {
  std::vector<Input> inputs{file(0), file(1)};
  std::size_t next = 0;
  EXPECT_ERROR(
      run_pipeline(
          [&]() -> std::optional<Input> {
            return next < inputs.size() ? std::optional(inputs[next++]) : std::nullopt;
          },
          classifier_, options_,
          [](const PipelineResult&) -> bool { throw Error(ErrorCode::unreadable, "disk full"); }),
      unreadable, "disk full");
}

TEST_F(PipelineTest, ASlowSourceGetsItsRecordsAtOnce) {
  // Like lines that arrive on a pipe: the first record must not wait for a full batch.
  const Input input = file(0);
  options_.batch_size = 8;
  std::atomic<int> done{0};
  int read = 0;
  bool first_came_alone = false;
  run_pipeline(
      [&]() -> std::optional<Input> {
        if (read == 2) return std::nullopt;
        if (read == 1) {
          for (int i = 0; i < 500 && done == 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          first_came_alone = done == 1;
        }
        ++read;
        return input;
      },
      classifier_, options_, [&](const PipelineResult&) { return ++done > 0; });
  EXPECT_TRUE(first_came_alone);
}

class PipelineViewsTest : public PipelineTest {
 protected:
  PipelineViewsTest() { options_.transform.tiling = image::Tiling::tiles; }
  /// Sizes of one view, of several, and of less than a tile.
  std::vector<Input> pictures(int count) {
    std::vector<Input> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(file(i, 20 + 37 * (i % 5), 24 + 29 * (i % 4)));
    return inputs;
  }
};

TEST_F(PipelineViewsTest, EachClassIsThatOfItsMostProbableView) {
  for (const auto tiling : {image::Tiling::tiles, image::Tiling::pyramid}) {
    options_.transform.tiling = tiling;
    options_.batch_size = 5;
    options_.keep_picture = true;
    const std::vector<Input> inputs = pictures(20);
    const Outcome outcome = run(inputs);
    ASSERT_EQ(outcome.results.size(), inputs.size());
    EXPECT_EQ(outcome.timing.images, 20);
    std::size_t most = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const PipelineResult& result = outcome.results[i];
      EXPECT_EQ(result.input.given, inputs[i].given);
      ASSERT_FALSE(result.error) << result.message;
      ASSERT_TRUE(result.views);
      const image::Picture picture = image::read_picture(inputs[i].path, {});
      EXPECT_EQ(result.pixels.rgb, picture.rgb);
      EXPECT_EQ(result.picture, (image::Size{picture.height, picture.width}));
      const auto plans = image::plan_views(options_.transform, result.picture);
      ASSERT_EQ(result.views->plans.size(), plans.size());
      most = std::max(most, plans.size());
      std::vector<at::Tensor> views;
      for (const image::TransformPlan& plan : plans)
        views.push_back(image::normalise(options_.transform,
                                         image::transform_pixels(options_.transform, picture, plan),
                                         plan.output));
      const at::Tensor logits = classifier_.logits(at::stack(views));
      const at::Tensor expected = std::get<0>(at::softmax(logits.to(at::kDouble), -1).max(0));
      for (std::int64_t c = 0; c < 4; ++c) {
        const BestViews::Best& best = result.views->best.classes().at(static_cast<std::size_t>(c));
        EXPECT_NEAR(best.probability, expected[c].item<double>(), 1e-5);
        const auto view = static_cast<std::int64_t>(best.view);
        EXPECT_NEAR(best.logit, logits[view][c].item<double>(), 1e-4);
        EXPECT_FLOAT_EQ(result.logits[c].item<float>(), static_cast<float>(best.logit));
      }
    }
    EXPECT_GE(most, 24U);
  }
}

TEST_F(PipelineViewsTest, BatchesAndFailuresAreAsWithOneView) {
  TwoSlotModel model(3);
  options_.batch_size = 8;
  std::vector<Input> inputs = pictures(12);
  inputs[4] = {"four", folder_.write("four.jpg", "this is text"), false, std::nullopt, ""};
  inputs[9] = {"nine", {}, false, ErrorCode::not_found, "no such file"};
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 12U);
  std::int64_t views = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(results[i].input.given, inputs[i].given);
    EXPECT_EQ(results[i].error.has_value(), i == 4 || i == 9) << results[i].message;
    if (!results[i].error) views += std::ssize(results[i].views->plans);
  }
  EXPECT_EQ(results[4].error, ErrorCode::unsupported_format);
  EXPECT_LE(std::ranges::max(model.sizes_), 2) << "8 and 4 did not fit";
  EXPECT_EQ(std::accumulate(model.sizes_.begin(), model.sizes_.end(), std::int64_t{0}), views);
  TwoSlotModel without_room(0);
  for (const PipelineResult& result : results_of(without_room, options_, pictures(3)))
    EXPECT_EQ(result.error, ErrorCode::out_of_memory);
}

TEST_F(PipelineViewsTest, ALargePictureGoesThroughInBatches) {
  options_.batch_size = 4;
  for (const std::int64_t budget : {options_.memory_budget, std::int64_t{1}}) {
    options_.memory_budget = budget;  // a tiny one only slows it down
    TwoSlotModel model(100);
    const auto results = results_of(model, options_, {file(0, 700, 500), file(1)});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].views->plans.size(), 29U * 21U);
    EXPECT_LE(std::ranges::max(model.sizes_), 4);
  }
}

}  // namespace pipeline_test
}  // namespace hydrascope::app
