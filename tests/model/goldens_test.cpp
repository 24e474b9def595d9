// Logits equal timm's for the same weights and the same input tensor. Cases and generator:
// tests/data/goldens/README.md.
#include "model/checkpoint/checkpoint.h"
#include "model/config/architectures.h"
#include "model/inference/classifier.h"
#include "model/vision_transformer.h"
#include "tests/model/deterministic_weights.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hydrascope::model {
namespace goldens_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kRoot = HYDRASCOPE_SOURCE_DIR;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/data/goldens")) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// timm's create_model(arch, **kwargs) as a configuration.
VitConfig config_of(const std::string& arch, const Json& kwargs, std::int64_t height,
                    std::int64_t width) {
  VitConfig config = find_architecture(arch).value().config;
  config.img_height = height;
  config.img_width = width;
  for (const auto& [key, value] : kwargs.items()) {
    if (key == "init_values") {
      config.layer_scale = true;
      continue;
    }
    // timm's words for fields that other makers name otherwise, or that say two things.
    if (key == "pre_norm") {
      config.norm_pre = value.get<bool>();
      config.patch_bias = !config.norm_pre;
      continue;
    }
    if (key == "act_layer") {
      config.act = find_word<Activation>(value.get<std::string>()).value();
      continue;
    }
    if (key == "scale_attn_norm" || key == "scale_mlp_norm") {
      (key == "scale_attn_norm" ? config.scale_attn : config.scale_mlp) = value.get<bool>();
      continue;
    }
    if (key == "norm_layer") {
      config.rms_norm = value == "rmsnorm";
      continue;
    }
    if (key == "embed_norm_layer") {
      config.patch_norm = true;
      continue;
    }
    bool known = false;
    VitConfig::visit(config, [&](std::string_view field, auto& target) {
      if (field != key) return;
      known = true;
      using Target = std::decay_t<decltype(target)>;
      if constexpr (std::is_same_v<Target, Pooling>) {
        target = find_word<Pooling>(value.template get<std::string>()).value();
      } else if constexpr (!std::is_same_v<Target, Activation> &&
                           !std::is_same_v<Target, std::vector<AttentionSpec>> &&
                           !std::is_same_v<Target, std::vector<PositionSpec>>) {
        target = value.template get<Target>();
      }
    });
    if (!known) throw std::runtime_error("no field for timm's " + key);
  }
  return config;
}

void fill(const std::string& name, at::Tensor tensor, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
  testing::fill_deterministic(name, tensor.sizes(), values, seed);
  tensor.copy_(at::from_blob(values.data(), tensor.sizes(), at::kFloat));
}

at::Tensor golden_tensor(const checkpoint::SafetensorsFile& file, const char* name) {
  const checkpoint::TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error(std::string("golden without ") + name);
  return at::from_blob(const_cast<std::byte*>(view->data.data()), view->shape, at::kFloat).clone();
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, LogitsEqualTimms) {
  const auto file = checkpoint::SafetensorsFile::open(kRoot / "tests/data/goldens" /
                                                      (GetParam() + ".safetensors"));
  const checkpoint::Metadata& metadata = file.metadata();
  const auto weights_size =
      Json::parse(metadata.at("weights_img_size")).get<std::vector<std::int64_t>>();
  const VitConfig config = config_of(metadata.at("arch"), Json::parse(metadata.at("kwargs")),
                                     weights_size.at(0), weights_size.at(1));
  const std::uint64_t seed = std::stoull(metadata.at("seed"));
  VisionTransformer model(config);
  model->eval();
  if (metadata.at("weights") == "deterministic") {
    for (const auto& [name, tensor] : named_tensors(*model)) fill(name, tensor, seed);
  } else {
    checkpoint::Checkpoint::open(kRoot / metadata.at("weights")).load_into(*model);
  }
  const at::Tensor input =
      at::empty(Json::parse(metadata.at("input_shape")).get<std::vector<std::int64_t>>());
  fill("input", input, seed);

  const c10::InferenceMode inference;
  const at::Tensor expected = golden_tensor(file, "logits");
  // timm's own float32 run is `float32_error` away. Another epsilon of a layer norm, or another
  // GELU, is at least 3.5e-5.
  const double tolerance = std::max(10 * std::stod(metadata.at("float32_error")), 5e-6);
  const at::Tensor logits = model->forward(input);
  EXPECT_TRUE(testing::all_near(logits, expected, tolerance));

  // Once more by the explicit formula; then the layers are compared one by one, where the file has
  // them.
  if (file.find("first_token") == nullptr || input.size(2) > 400) return;
  std::vector<at::Tensor> entering;
  const ForwardOptions options{.kernels = Kernels::reference, .block_inputs = &entering};
  EXPECT_TRUE(testing::all_near(model->forward(input, options), expected, tolerance));
  const at::Tensor first_token = golden_tensor(file, "first_token");  // (depth + 1, batch, D)
  ASSERT_EQ(static_cast<std::int64_t>(entering.size()), config.depth);
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    const at::Tensor found = entering[static_cast<std::size_t>(layer)].select(1, 0);
    const at::Tensor wanted = first_token[layer];
    EXPECT_LT((found - wanted).abs().max().item<double>() / wanted.abs().max().item<double>(), 1e-5)
        << "entering block " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(Timm, GoldenTest, ::testing::ValuesIn(golden_names()),
                         [](const auto& parameter) { return parameter.param; });

// As users run it on a processor: real weights, the plan, no module between.
TEST(GoldenTest, NarrowPrecisionsOfTheProcessorStayNear) {
  const auto file =
      checkpoint::SafetensorsFile::open(kRoot / "tests/data/goldens/deit_tiny_224.safetensors");
  const at::Tensor expected = golden_tensor(file, "logits");
  const at::Tensor input = at::empty({expected.size(0), 3, 224, 224});
  fill("input", input, std::stoull(file.metadata().at("seed")));
  const auto weights = checkpoint::Checkpoint::open(kRoot / file.metadata().at("weights"));
  for (const auto& [precision, bound] :
       {std::pair{"float32", 1e-5}, {"bfloat16", 0.03}, {"int8", 0.09}}) {
    inference::InferenceOptions options;
    options.precision = resolve_precision(precision, options.device);
    Classifier classifier(weights.deduce_config(), weights, options);
    EXPECT_EQ(classifier.engine().describe().kernels, "fused");
    const at::Tensor logits = classifier.engine().logits(input);
    const double error = ((logits - expected).norm() / expected.norm()).item<double>();
    EXPECT_LT(error, bound) << precision;
  }
}

TEST(GoldenTest, AllCasesAreThere) { EXPECT_GE(golden_names().size(), 26U); }

}  // namespace goldens_test
}  // namespace hydrascope::model
