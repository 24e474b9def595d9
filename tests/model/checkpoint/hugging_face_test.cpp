// Models as transformers saves them, with its answers: scripts/make/make_hugging_face_fixtures.py.
#include "model/checkpoint/checkpoint.h"
#include "model/image/decode.h"
#include "model/transform.h"
#include "model/vision_transformer.h"
#include "tests/model/deterministic_weights.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::checkpoint {
namespace hugging_face_test {

namespace fs = std::filesystem;
using model::PosInterp;
using model::VisionTransformer;
using model::VitConfig;

const fs::path kData = fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data";

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kData / "hugging_face"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

at::Tensor stored(const SafetensorsFile& file, const char* name) {
  const TensorView& view = *file.find(name);
  return at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape, at::kFloat).clone();
}

/// The generator's tensor "input".
at::Tensor input(std::vector<std::int64_t> shape) {
  at::Tensor images = at::empty(shape);
  testing::fill_deterministic(
      "input", shape, {images.mutable_data_ptr<float>(), static_cast<std::size_t>(images.numel())},
      42);
  return images;
}

class HuggingFace : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFace, AnswersAsTransformersDoes) {
  const fs::path folder = kData / "hugging_face" / GetParam();
  const auto expected = SafetensorsFile::open(folder / "expected.safetensors");
  const Checkpoint saved = Checkpoint::open(folder);
  VitConfig config = saved.deduce_config();
  config.pos_interp = PosInterp::hf;
  VisionTransformer model(config);
  const LoadReport report = saved.load_into(*model);
  EXPECT_TRUE(report.initialised.empty()) << report.initialised.front();
  EXPECT_TRUE(report.unused.empty()) << report.unused.front();
  model->eval();
  const c10::InferenceMode inference;
  // float32 against float64.
  constexpr double kTolerance = 2e-5;
  EXPECT_TRUE(testing::all_near(model->forward(input({2, 3, 16, 16})), stored(expected, "logits"),
                                kTolerance));
  EXPECT_TRUE(testing::all_near(model->forward(input({1, 3, 24, 32})),
                                stored(expected, "logits_resized"), kTolerance));

  image::TransformConfig transform;
  transform.img_size = {config.img_height, config.img_width};
  transform.patch_size = config.patch_size;
  std::map<std::string, std::string> origins;
  saved.hub().transform.apply_to(transform, origins);
  // Pillow and torchvision, whichever the image processor uses: within two steps of 255.
  const double two_steps = 2.01 / 255 / transform.std[0];
  EXPECT_TRUE(testing::all_near(
      image::apply_transform(transform, image::read_picture(kData / "images/colour.png", {})),
      stored(expected, "pixel_values"), two_steps));
}

INSTANTIATE_TEST_SUITE_P(Transformers, HuggingFace, ::testing::ValuesIn(fixtures()),
                         [](const auto& fixture) { return fixture.param; });

TEST(HuggingFaceFixtures, BothVersionsAndAllLayoutsAreThere) {
  const std::vector<std::string> expected{
      "deit_4", "deit_5",           "deit_distilled_4",   "deit_distilled_5",  "vit_4",
      "vit_5",  "vit_state_dict_5", "vit_without_bias_4", "vit_without_bias_5"};
  EXPECT_EQ(fixtures(), expected);
  const auto layout_of = [](const char* name) {
    return Checkpoint::open(kData / "hugging_face" / name).layout();
  };
  EXPECT_EQ(layout_of("vit_4"), "Hugging Face 4");
  EXPECT_EQ(layout_of("vit_5"), "Hugging Face 4") << "version 5 saves in the names of version 4";
  EXPECT_EQ(layout_of("vit_state_dict_5"), "Hugging Face 5");
}

}  // namespace hugging_face_test
}  // namespace hydrascope::checkpoint
