// Checkpoints by the names of Hugging Face, of the models' authors and of torchvision, written as their programs
// write them: they open, and logits or features are theirs. Generator: scripts/make/make_layout_goldens.py.
#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/goldens.h"
#include "tests/model/tensor_match.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::checkpoint {
namespace layout_goldens_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::Golden;
using testing::Shape;

/// Goldens whose network has a part that is not computed, and words of the refusal.
const std::map<std::string, std::string>& refused() {
  static const std::map<std::string, std::string> kRefused{
      {"transformers_4_dinov2_classifier", "side by side"},
      {"transformers_4_dinov2_registers_classifier", "side by side"}};
  return kRefused;
}

Golden read_golden(const std::string& name) {
  return testing::read_golden("layouts/" + name, "answer");
}

/// Authors' files come without a configuration; the number of heads does not follow from so small a width.
void write_files(const testing::TemporaryFolder& folder, const Golden& golden, double base = 100) {
  const std::string& config = golden.metadata.at("config");
  testing::write_golden(
      folder, golden.metadata,
      config.empty() ? R"({"architecture": "vit", "model_args": {"num_heads": 2, "img_size": 32}})"
                     : config,
      base);
}

TEST(LayoutGoldensTest, DinoV3sAuthorsKeepTheBaseOfRotationsInTheFile) {
  const testing::TemporaryFolder folder;
  const auto base_of = [&](double base) {
    write_files(folder, read_golden("dinov3_original"), base);
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    const std::map<std::string, std::string> options =
        checkpoint.deduce_config().rel_pos.front().options;
    const auto found = options.find("base");
    return found == options.end() ? 100 : std::stod(found->second);
  };
  EXPECT_EQ(base_of(100), 100);
  EXPECT_NEAR(base_of(3), 3, 1e-5);
  EXPECT_ERROR(base_of(-5), unsupported_format, "rope_embed.periods", "powers of one base");
}

/// transformers' Dinov2WithRegisters resamples its table with `antialias`, its other models without.
TEST(LayoutGoldensTest, TablesOfModelsWithRegistersAreResampledAsTimmDoes) {
  for (const auto& [name, expected] :
       {std::pair{"transformers_4_dinov2", model::PosInterp::hf},
        {"transformers_4_dinov2_registers", model::PosInterp::timm}}) {
    const testing::TemporaryFolder folder;
    write_files(folder, read_golden(name));
    EXPECT_EQ(Checkpoint::open(folder.path()).deduce_config().pos_interp, expected) << name;
  }
}

/// open_clip's blocks may have a norm behind attention, which has no place here.
TEST(LayoutGoldensTest, ANormBehindOpenClipsAttentionIsRefused) {
  const Golden golden = read_golden("open_clip");
  const testing::TemporaryFolder folder;
  write_files(folder, golden);
  const auto contents = SafetensorsFile::open(folder.path() / "model.safetensors");
  std::vector<TensorView> views = contents.tensors();
  // A text tower has blocks of the same names.
  const auto norm = std::ranges::find_if(views, [](const TensorView& view) {
    return view.name.starts_with("visual.") && view.name.ends_with("blocks.0.ln_1.weight");
  });
  ASSERT_NE(norm, views.end());
  TensorView behind = *norm;
  behind.name.replace(behind.name.find("ln_1"), 4, "ln_attn");
  views.push_back(behind);
  const fs::path file = folder.path() / "more/model.safetensors";
  fs::create_directories(file.parent_path());
  fs::copy_file(folder.path() / "config.json", file.parent_path() / "config.json");
  write_safetensors(file, views, {});
  EXPECT_ERROR(Checkpoint::open(file).deduce_config(), unsupported_format, "ln_attn",
               "does not compute");
}

/// Logits, or a tower's features.
at::Tensor answer_of(model::VisionTransformer& model, const at::Tensor& input) {
  if (model->config().num_classes > 0) return model->forward(input);
  return model->forward_pool(model->forward_features(input));
}

class LayoutGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LayoutGoldenTest, OpensAndAnswersAsItsProgram) {
  const c10::InferenceMode inference;
  const Golden golden = read_golden(GetParam());
  const testing::TemporaryFolder folder;
  write_files(folder, golden);
  if (const auto found = refused().find(GetParam()); found != refused().end()) {
    EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), unsupported_format,
                 found->second.c_str());
    return;
  }
  auto weights = Checkpoint::open(folder.path());
  const model::VitConfig config = weights.deduce_config();
  EXPECT_EQ(config.num_classes == 0, golden.metadata.at("kind") == "features");
  model::VisionTransformer model(config);
  model->eval();
  EXPECT_EQ(weights.load_into(*model).initialised.size(), 0U);
  const double tolerance = 1e-4 * golden.answer.std().item<double>();
  const at::Tensor answer = answer_of(model, golden.input);
  EXPECT_LT((answer - golden.answer).abs().max().item<double>(), tolerance);

  // The same as our own file.
  const fs::path own = folder.path() / "own/model.safetensors";
  fs::create_directories(own.parent_path());
  save_checkpoint(own, *model, Dtype::F32, {});
  const auto again = Checkpoint::open(own);
  EXPECT_EQ(again.deduce_config(), model->config());
  model::VisionTransformer reopened(again.deduce_config());
  again.load_into(*reopened);
  EXPECT_TRUE(at::equal(answer_of(reopened, golden.input), answer));
}

INSTANTIATE_TEST_SUITE_P(Files, LayoutGoldenTest,
                         ::testing::ValuesIn(testing::golden_names("layouts")),
                         [](const auto& parameter) { return parameter.param; });

bool has_note(const Checkpoint& checkpoint, std::string_view text) {
  return std::ranges::any_of(checkpoint.notes(), [&](const std::string& note) {
    return note.find(text) != std::string::npos;
  });
}

TEST(LayoutNotesTest, PartsThatAreLeftOutAreNamed) {
  for (const auto& [name, note] :
       {std::pair{"dino", "left out: a head of the pretraining (4 tensors)"},
        {"transformers_4_vit_model", "left out: transformers' pooler (2 tensors)"},
        {"transformers_4_deit_model", "left out: transformers' pooler (2 tensors)"},
        {"transformers_4_vit_mae_pretraining", "left out: the decoder of the pretraining ("}}) {
    const testing::TemporaryFolder folder;
    write_files(folder, read_golden(name));
    EXPECT_TRUE(has_note(Checkpoint::open(folder.path()), note)) << name;
  }
}

/// The numbers of the modules' tensor `name`.
std::vector<float> numbers_of(const Checkpoint& checkpoint, std::string_view name,
                              const Shape& shape) {
  const NamedTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr || tensor->parts.size() != 1 || tensor->shape != shape) {
    ADD_FAILURE() << name;
    return {};
  }
  const auto bytes = tensor->parts.front()->data;
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// A golden's files; without the activation, which no tensor shows.
Checkpoint open_mapped(const testing::TemporaryFolder& folder, const Golden& golden) {
  write_files(folder, golden);
  Json config = Json::parse(golden.metadata.at("config"));
  for (Json* each : {&config, &config["vision_config"]}) (*each)["hidden_act"] = "gelu";
  folder.write("config.json", config.dump());
  return Checkpoint::open(folder.path());
}

TEST(TowerFormsTest, TokensAndProjectionsOfClipHaveTheModulesShapes) {
  const Golden golden = read_golden("open_clip");
  const testing::TemporaryFolder folder;
  const Checkpoint checkpoint = open_mapped(folder, golden);
  const std::vector<float> proj = testing::golden_values("visual.proj", {32, 16}, golden.seed);
  const std::vector<float> head = numbers_of(checkpoint, "head.weight", {16, 32});
  ASSERT_EQ(head.size(), proj.size());
  for (std::size_t row = 0; row < 32; ++row)
    for (std::size_t column = 0; column < 16; ++column)
      EXPECT_EQ(head[column * 32 + row], proj[row * 16 + column]);
  EXPECT_EQ(numbers_of(checkpoint, "head.bias", {16}), std::vector<float>(16, 0.0F));
  EXPECT_EQ(numbers_of(checkpoint, "cls_token", {1, 1, 32}),
            testing::golden_values("visual.class_embedding", {32}, golden.seed));
  EXPECT_EQ(numbers_of(checkpoint, "pos_embed", {1, 17, 32}),
            testing::golden_values("visual.positional_embedding", {17, 32}, golden.seed));
  EXPECT_EQ(numbers_of(checkpoint, "norm_pre.weight", {32}),
            testing::golden_values("visual.ln_pre.weight", {32}, golden.seed));
  EXPECT_EQ(checkpoint.find("patch_embed.proj.bias"), nullptr);
  EXPECT_TRUE(has_note(checkpoint, "left out: the text tower ("));
}

TEST(TowerFormsTest, SiglipsPoolingIsCutIntoQueriesAndTheRest) {
  const Golden golden = read_golden("transformers_4_siglip");
  const testing::TemporaryFolder folder;
  const Checkpoint checkpoint = open_mapped(folder, golden);
  const std::string attention = "vision_model.head.attention.";
  const std::vector<float> rows =
      testing::golden_values(attention + "in_proj_weight", {96, 32}, golden.seed);
  EXPECT_EQ(numbers_of(checkpoint, "attn_pool.q.weight", {32, 32}),
            std::vector(rows.begin(), rows.begin() + 32 * 32));
  EXPECT_EQ(numbers_of(checkpoint, "attn_pool.kv.weight", {64, 32}),
            std::vector(rows.begin() + 32 * 32, rows.end()));
  const std::vector<float> biases =
      testing::golden_values(attention + "in_proj_bias", {96}, golden.seed);
  EXPECT_EQ(numbers_of(checkpoint, "attn_pool.kv.bias", {64}),
            std::vector(biases.begin() + 32, biases.end()));
  EXPECT_EQ(numbers_of(checkpoint, "attn_pool.latent", {1, 1, 32}),
            testing::golden_values("vision_model.head.probe", {1, 1, 32}, golden.seed));
  EXPECT_EQ(checkpoint.find("attn_pool.qkv.weight"), nullptr);
}

TEST(LayoutNotesTest, ABareTowerOfClipDoesNotSayItsActivation) {
  const testing::TemporaryFolder folder;
  write_files(folder, read_golden("open_clip"));
  fs::remove(folder.path() / "config.json");
  EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), failed, "GELU", "config.json");
}

TEST(LayoutNotesTest, AConfigurationThatContradictsIsAnError) {
  for (const auto& [name, key, value] :
       {std::tuple{"transformers_4_dinov2_registers", "num_register_tokens", Json(2)},
        {"transformers_4_dinov2_swiglu", "mlp_ratio", Json(3)},
        {"transformers_4_dinov3", "use_gated_mlp", Json(true)},
        {"transformers_4_beit", "use_relative_position_bias", Json(false)},
        {"transformers_4_beit", "use_mean_pooling", Json(false)},
        {"transformers_4_beit", "layer_scale_init_value", Json(0)},
        {"transformers_4_vit_msn", "image_size", Json(64)}}) {
    const Golden golden = read_golden(name);
    const testing::TemporaryFolder folder;
    write_files(folder, golden);
    Json config = Json::parse(golden.metadata.at("config"));
    config[key] = value;
    if (config["use_gated_mlp"] == true) config["hidden_act"] = "silu";
    folder.write("config.json", config.dump());
    EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), invalid_argument, key);
  }
}

}  // namespace layout_goldens_test
}  // namespace hydrascope::checkpoint
