// A pipeline whose model is small enough to run hundreds of pictures in a blink.
#pragma once

#include "app/pipeline/pipeline.h"
#include "model/inference/classifier.h"
#include "model/inference/overlap.h"
#include "model/transform.h"
#include "model/vision_transformer.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hydrascope::app::pipeline_test {

inline model::Classifier small_classifier(const testing::TemporaryFolder& folder) {
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
        engine_, options_,
        [&](const PipelineResult& result) {
          run.results.push_back(result);
          return true;
        });
    return run;
  }

  testing::TemporaryFolder folder_;
  model::Classifier classifier_ = small_classifier(folder_);
  model::inference::Engine& engine_ = classifier_.engine();
  PipelineOptions options_;
};

/// A GPU's manners: takes bytes, has two batches under way, and no room for more than `most`.
class TwoSlotModel final : public model::inference::Engine, public model::inference::Overlap {
 public:
  explicit TwoSlotModel(std::int64_t most) : Engine(of_sixteen_tokens()), most_(most) {}

  [[nodiscard]] int under_way() const { return *under_way_; }
  [[nodiscard]] std::int64_t enough_tokens() const noexcept override { return 128; }
  [[nodiscard]] model::inference::Overlap* overlap() noexcept override { return this; }
  [[nodiscard]] int most_under_way() const noexcept override { return 2; }
  model::inference::PendingBatch::Wait begin(const model::inference::ImageBatch& batch) override {
    if (batch.size() > most_) throw Error(ErrorCode::out_of_memory, "does not fit", "a test");
    EXPECT_LT(under_way(), most_under_way());
    EXPECT_TRUE(batch.is_bytes());
    for (const at::Tensor& image : batch.images)
      EXPECT_EQ(image.sizes(), batch.images.front().sizes());
    at::Tensor logits = at::empty({batch.size(), 1});
    for (std::int64_t i = 0; i < batch.size(); ++i)
      logits[i] = batch.images[static_cast<std::size_t>(i)].to(at::kFloat).mean();
    const std::shared_ptr<void> counted(nullptr, [count = under_way_](void*) { --*count; });
    largest_ = std::max(largest_, ++*under_way_);
    sizes_.push_back(batch.size());
    return [logits, counted, slow = slow_]() -> model::inference::EngineOutputs {
      // Long enough for the workers to gather the next batch.
      if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return {logits, {}};
    };
  }

  bool slow_ = false;
  int largest_ = 0;  ///< batches under way at once
  std::vector<std::int64_t> sizes_;

 private:
  model::inference::EngineOutputs run(const model::inference::ImageBatch& batch) override {
    return begin(batch)();
  }
  static model::VitConfig of_sixteen_tokens() {
    model::VitConfig config;
    config.patch_size = 8;
    config.class_token = false;
    return config;
  }

  std::int64_t most_;
  std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  ///< batches
};

inline std::vector<PipelineResult> results_of(model::inference::Engine& model,
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

}  // namespace hydrascope::app::pipeline_test
