#include "app/pipeline/pipeline.h"

#include "app/pipeline/predictions.h"
#include "model/transform.h"
#include "tests/app/pipeline/small_pipeline.h"
#include "tests/error_matchers.h"
#include "tests/model/tensor_match.h"
#include "tests/picture_files.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <sys/stat.h>
#include <thread>

namespace hydrascope::app {
namespace pipeline_test {

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
    const at::Tensor input = model_input(result);
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
  // A reader that loses its processor makes smaller batches, which may fit: then once more.
  const auto run_often = [&] {
    for (int attempt = 0; attempt < 50; ++attempt) results_of(model, options_, inputs);
  };
  EXPECT_ERROR(run_often(), out_of_memory, "not enough memory for a batch of");
}

TEST_F(PipelineTest, OutOfMemoryHalvesTheBatchAndSaysSo) {
  TwoSlotModel model(3);
  std::vector<std::string> notices;
  options_.notice = [&](const std::string& text) { notices.push_back(text); };
  options_.batch_size = 8;
  std::vector<Input> inputs;
  for (int i = 0; i < 20; ++i) inputs.push_back(file(i));
  // A reader that loses its processor makes smaller batches, which fit at once: then once more.
  for (int attempt = 0; attempt < 50 && notices.size() != 2; ++attempt) {
    notices.clear();
    const auto results = results_of(model, options_, inputs);
    ASSERT_EQ(results.size(), 20U);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_FALSE(results[i].error) << results[i].message;
      EXPECT_EQ(results[i].input.given, std::to_string(i) + ".ppm");
    }
  }
  ASSERT_EQ(notices.size(), 2U) << "8, then 4; 2 fit";
  EXPECT_NE(notices[0].find("8 pictures of 32x32 at once, going on with 4"), std::string::npos);
  EXPECT_LE(std::ranges::max(model.sizes_), 3);
}

TEST_F(PipelineTest, BytesOfOneModelSizeAndSeveralSizesOfTheirOwnAreNotMixed) {
  TwoSlotModel model(100);
  options_.transform.views = image::Views::native;  // padded to multiples of 8 by the model
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
  options_.transform.views = image::Views::native;
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
      engine_, options_,
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
      engine_, options_, [&](const PipelineResult&) { return ++done < 5; });
  EXPECT_EQ(done, 5);
}

TEST_F(PipelineTest, WithoutAnOrderNothingWaitsForASlowPicture) {
  // The first picture is a pipe that is written when the others have been answered.
  const std::filesystem::path slow = folder_.path() / "slow.ppm";
  ASSERT_EQ(::mkfifo(slow.c_str(), 0600), 0);
  std::vector<Input> inputs{{"slow", slow, false, std::nullopt, ""}};
  for (int i = 0; i < 5; ++i) inputs.push_back(file(i));
  inputs.push_back({"missing", folder_.path() / "missing.ppm", false, std::nullopt, ""});
  options_.in_order = false;
  options_.patience = 0.01;
  options_.batch_size = 4;
  std::vector<std::string> order;
  std::thread writer;
  std::size_t next = 0;
  run_pipeline(
      [&]() -> std::optional<Input> {
        return next < inputs.size() ? std::optional(inputs[next++]) : std::nullopt;
      },
      engine_, options_,
      [&](const PipelineResult& result) {
        order.push_back(result.input.given);
        if (order.size() == 6)
          writer =
              std::thread([&] { std::ofstream(slow, std::ios::binary) << testing::ppm(40, 30); });
        return true;
      });
  writer.join();
  ASSERT_EQ(order.size(), 7U);
  EXPECT_EQ(order.back(), "slow");
}

TEST_F(PipelineTest, PicturesInMemoryAreThoseOfFiles) {
  const std::string bytes = testing::ppm(40, 30, 1);
  const image::Picture pixels = image::read_picture(file(1).path, {});
  Input encoded{"encoded", {}, false, std::nullopt, ""};
  encoded.memory = std::make_shared<PictureInMemory>(
      PictureInMemory{.encoded = std::as_bytes(std::span(bytes))});
  Input decoded{"decoded", {}, false, std::nullopt, ""};
  decoded.memory = std::make_shared<PictureInMemory>(
      PictureInMemory{.pixels = {pixels.rgb.data(), 30, 40, 120}});
  decoded.number = 7;
  const Outcome all = run({file(1), encoded, decoded});
  for (const PipelineResult& result : all.results) {
    ASSERT_FALSE(result.error) << result.message;
    EXPECT_TRUE(at::equal(result.tensor, all.results.front().tensor));
  }
  EXPECT_EQ(all.results.back().input.number, 7);
  options_.decode.max_pixels = 1199;
  options_.decode.max_bytes = static_cast<std::int64_t>(bytes.size()) - 1;
  for (const PipelineResult& result : run({encoded, decoded}).results)
    EXPECT_EQ(result.error, ErrorCode::too_large) << result.message;
}

TEST_F(PipelineTest, NothingInNothingOut) { EXPECT_TRUE(run({}).results.empty()); }

TEST_F(PipelineTest, AnErrorOfTheSourceIsRethrown) {
  EXPECT_ERROR(
      run_pipeline([]() -> std::optional<Input> { throw Error(ErrorCode::failed, "source broke"); },
                   engine_, options_, [](const PipelineResult&) { return true; }),
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
          engine_, options_,
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
      engine_, options_, [&](const PipelineResult&) { return ++done > 0; });
  EXPECT_TRUE(first_came_alone);
}

TEST_F(PipelineTest, WholeBatchesWaitForASlowSource) {
  const Input input = file(0);
  options_.batch_size = 3;
  options_.whole_batches = true;
  int read = 0;
  std::vector<std::int64_t> batches;
  run_pipeline(
      [&]() -> std::optional<Input> {
        if (read == 7) return std::nullopt;
        ++read;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return input;
      },
      engine_, options_,
      [&](const PipelineResult& result) {
        batches.push_back(result.batch_size);
        return true;
      });
  EXPECT_EQ(batches, (std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 1}));
}

TEST_F(PipelineTest, WholeBatchesOfManySizesEnd) {
  // No size ever has a whole batch within the window of pictures that are read ahead.
  options_.transform.views = image::Views::native;
  options_.batch_size = 2;
  options_.whole_batches = true;
  std::vector<Input> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(file(i, 16 + 8 * i, 16));
  EXPECT_EQ(run(inputs).results.size(), 40U);
}

/// A model with a memory, which notes what it is given.
class RememberingModel final : public model::inference::Engine {
 public:
  RememberingModel() : Engine(of_sixteen_tokens(), with_a_memory()) {}

  struct Given {
    double level;  ///< the mean of the picture
    bool goes_on;
  };
  std::vector<Given> given_;

 private:
  model::inference::EngineOutputs run(const model::inference::ImageBatch& batch) override {
    const at::Tensor images = batch.stacked();
    given_.push_back({images.mean().item<double>(), batch.goes_on});
    return {images.mean({1, 2, 3}).unsqueeze(1), {}};
  }
  static model::VitConfig of_sixteen_tokens() {
    model::VitConfig config;
    config.patch_size = 8;
    config.class_token = false;
    return config;
  }
  static model::inference::InferenceOptions with_a_memory() {
    model::inference::InferenceOptions options;
    options.memory.resize(12);
    return options;
  }
};

TEST_F(PipelineTest, AModelWithAMemoryGetsPicturesOneByOneInTheirOrder) {
  RememberingModel model;
  options_.batch_size = 8;
  options_.transform.views = image::Views::native;
  std::vector<Input> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(file(i, 32 + 8 * (i % 3), 32));
  const auto results = results_of(model, options_, inputs);
  ASSERT_EQ(results.size(), 40U);
  ASSERT_EQ(model.given_.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) {
    ASSERT_FALSE(results[i].error) << results[i].message;
    EXPECT_FLOAT_EQ(static_cast<float>(model.given_[i].level), results[i].logits.item<float>());
    EXPECT_FALSE(model.given_[i].goes_on) << "a picture is no frame";
  }
}

PipelineResult frame_of(const std::string& video, std::int64_t number, double logit) {
  PipelineResult result;
  result.input.given = video;
  result.frame = number;
  result.logits = at::full({2}, logit, at::kFloat);
  return result;
}

TEST(FollowedFrames, AreLaterFramesOfTheSameVideo) {
  FollowedFrames frames;
  EXPECT_FALSE(frames.follows(frame_of("a", 0, 0)));
  EXPECT_TRUE(frames.follows(frame_of("a", 25, 0)));
  EXPECT_TRUE(frames.follows(frame_of("a", 50, 0)));
  EXPECT_FALSE(frames.follows(frame_of("b", 75, 0)));
  EXPECT_FALSE(frames.follows(frame_of("b", 0, 0))) << "the same video once more";
  PipelineResult picture = frame_of("b", 0, 0);
  picture.frame.reset();
  EXPECT_FALSE(frames.follows(picture));
  EXPECT_FALSE(frames.follows(frame_of("b", 1, 0)));
}

TEST(FrameAverage, IsTheExponentialMeanOfAVideosLogits) {
  FrameAverage average(0.5);
  const auto answer = [&](PipelineResult result) {
    average.add(result);
    return result.logits[0].item<double>();
  };
  EXPECT_EQ(answer(frame_of("a", 0, 8)), 8);
  EXPECT_FLOAT_EQ(static_cast<float>(answer(frame_of("a", 1, 2))), (2 + 0.5F * 8) / 1.5F);
  EXPECT_FLOAT_EQ(static_cast<float>(answer(frame_of("a", 2, 1))),
                  (1 + 0.5F * 2 + 0.25F * 8) / 1.75F);
  EXPECT_EQ(answer(frame_of("b", 0, 3)), 3) << "another video";
  PipelineResult failed = frame_of("b", 1, 0);
  failed.logits.reset();
  failed.error = ErrorCode::failed;
  average.add(failed);
  EXPECT_FALSE(failed.logits.defined());
  EXPECT_FLOAT_EQ(static_cast<float>(answer(frame_of("b", 2, 6))), (6 + 0.5F * 3) / 1.5F);
  PipelineResult picture = frame_of("c", 0, 7);
  picture.frame.reset();
  average.add(picture);
  EXPECT_EQ(picture.logits[0].item<double>(), 7);
  FrameAverage none(0);
  PipelineResult first = frame_of("a", 0, 1);
  PipelineResult second = frame_of("a", 1, 2);
  none.add(first);
  none.add(second);
  EXPECT_EQ(second.logits[0].item<double>(), 2);
}

}  // namespace pipeline_test
}  // namespace hydrascope::app
