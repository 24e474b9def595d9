// A pipeline whose model is small enough to run hundreds of pictures in a blink.
#pragma once

#include "app/pipeline/pipeline.h"
#include "model/inference/classifier.h"
#include "model/transform.h"
#include "model/vision_transformer.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
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

}  // namespace hydrascope::app::pipeline_test
