// Checkpoints of timm's models with position rules, written as timm writes them: they open, and their
// logits are timm's. And our own files of such models. Generator: scripts/make/make_goldens.py.
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/config/architectures.h"
#include "model/inference/classifier.h"
#include "model/inference/inference_plan.h"
#include "model/position_embedding.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/goldens.h"
#include "tests/model/tensor_match.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::model {
namespace position_goldens_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The checkpoint of a golden, with timm's names, and the configuration that timm puts beside it.
fs::path write_timms_files(const testing::TemporaryFolder& folder,
                           const checkpoint::Metadata& golden) {
  return testing::write_golden(folder, golden,
                               Json{{"architecture", golden.at("arch")},
                                    {"num_classes", 10},
                                    {"model_args", Json::parse(golden.at("model_args"))}}
                                   .dump());
}

testing::Golden read_golden(const std::string& name) {
  return testing::read_golden("positions/" + name, "logits");
}

constexpr double kTolerance = 2e-5;

class PositionGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PositionGoldenTest, TimmsFileOpensAndLogitsAreTimms) {
  const c10::InferenceMode inference;
  const testing::Golden golden = read_golden(GetParam());
  const testing::TemporaryFolder folder;
  const auto weights = checkpoint::Checkpoint::open(write_timms_files(folder, golden.metadata));
  const VitConfig config = weights.deduce_config();
  VisionTransformer model(config);
  model->eval();
  const checkpoint::LoadReport report = weights.load_into(*model);
  EXPECT_TRUE(report.initialised.empty()) << report.initialised.front();
  EXPECT_TRUE(report.unused.empty()) << report.unused.front();
  EXPECT_TRUE(testing::all_near(model->forward(golden.input), golden.answer, kTolerance));
  EXPECT_TRUE(testing::all_near(model->forward(golden.input, {.kernels = Kernels::reference}),
                                golden.answer, kTolerance));

  inference::InferenceOptions options;
  Classifier classifier(config, weights, options);
  // The CPU's kernels turn queries and keys; a rule that changes scores runs as a module.
  EXPECT_EQ(classifier.engine().describe().kernels,
            config.rel_pos_of(0).rule == "rope" ? "fused" : "fused+modules");
  EXPECT_TRUE(
      testing::all_near(classifier.engine().logits(golden.input), golden.answer, kTolerance));

  // As our own file, which says what the names of timm's did not.
  const fs::path own = folder.path() / "own/model.safetensors";
  fs::create_directories(own.parent_path());
  checkpoint::save_checkpoint(own, *model, checkpoint::Dtype::F32, {});
  const auto again = checkpoint::Checkpoint::open(own);
  EXPECT_EQ(again.deduce_config(), model->config());
  VisionTransformer reopened(again.deduce_config());
  again.load_into(*reopened);
  EXPECT_TRUE(at::equal(reopened->forward(golden.input), model->forward(golden.input)));
}

INSTANTIATE_TEST_SUITE_P(Timm, PositionGoldenTest,
                         ::testing::ValuesIn(testing::golden_names("positions")),
                         [](const auto& parameter) { return parameter.param; });

TEST(PositionCheckpointTest, TheTensorsOfARuleShowItWithoutAConfiguration) {
  const testing::Golden golden = read_golden("rope_mixed");
  const testing::TemporaryFolder folder;
  const fs::path file = write_timms_files(folder, golden.metadata);
  fs::remove(folder.path() / "config.json");
  VitConfig config = find_architecture("vit_small_patch16_rope_mixed_224")->config;
  auto weights = checkpoint::Checkpoint::open(file);
  weights.complete(config);
  EXPECT_EQ(to_text(config.rel_pos), "rope");
  EXPECT_EQ(config.pos_embed, PosEmbed::none);
  EXPECT_NE(weights.find("blocks.1.attn.rope.freqs"), nullptr);
  EXPECT_EQ(weights.find("rope.freqs"), nullptr);

  const testing::Golden axial = read_golden("rope");
  const testing::TemporaryFolder other;
  const fs::path bare = write_timms_files(other, axial.metadata);
  fs::remove(other.path() / "config.json");
  EXPECT_ERROR(checkpoint::Checkpoint::open(bare).deduce_config(), failed, "pos_embed is missing",
               "`model` NAME");

  for (const char* name : {"eva02", "eva02_base"}) {
    const testing::Golden eva = read_golden(name);
    const testing::TemporaryFolder of_eva;
    const fs::path unnamed = write_timms_files(of_eva, eva.metadata);
    fs::remove(of_eva.path() / "config.json");
    EXPECT_ERROR(checkpoint::Checkpoint::open(unnamed).deduce_config(), failed, "EVA-02",
                 "`model` NAME");
  }
}

VitConfig of_three_layers(PosEmbed embedding) {
  VitConfig config;
  config.img_height = config.img_width = 48;
  config.embed_dim = 48;
  config.depth = 3;
  config.num_heads = 3;
  config.num_classes = 5;
  config.pos_embed = embedding;
  return config;
}

// Every rule and every kind of table, saved and opened again; the plan says what the modules say.
TEST(PositionCheckpointTest, ConfigurationsComeBackWithTheFile) {
  const c10::InferenceMode inference;
  const testing::TemporaryFolder folder;
  VitConfig config = of_three_layers(PosEmbed::learned);
  config.img_width = 64;
  config.attention.resize(3);
  config.attention[1] = {"window", {{"size", "2"}}};
  for (const PosEmbed embedding :
       {PosEmbed::learned, PosEmbed::layers, PosEmbed::sincos, PosEmbed::none}) {
    for (const PositionEntry* entry : position_rules()) {
      SCOPED_TRACE(entry->name + ", " + std::string(name(embedding)));
      config.pos_embed = embedding;
      config.rel_pos.assign(3, {});
      apply_position_spec(entry->name + ":0-1", config.rel_pos);
      at::manual_seed(5);
      VisionTransformer model(config);
      model->eval();
      for (const auto& [name, tensor] : named_tensors(*model))
        at::Tensor(tensor).add_(at::randn(tensor.sizes()), 0.1);
      const fs::path file = folder.path() / "model.safetensors";
      checkpoint::save_checkpoint(file, *model, checkpoint::Dtype::F32, {});
      const auto weights = checkpoint::Checkpoint::open(file);
      EXPECT_EQ(weights.deduce_config(), model->config());
      EXPECT_EQ(weights.find("pos_embed") != nullptr, has_table(embedding));
      EXPECT_EQ(weights.find("blocks.2.pos_embed") != nullptr, embedding == PosEmbed::layers);
      const at::Tensor images = at::randn({2, 3, 64, 80});
      const at::Tensor expected = model->forward(images);
      Classifier classifier(weights.deduce_config(), weights, {});
      EXPECT_TRUE(testing::all_near(classifier.engine().logits(images), expected,
                                    1e-5 * expected.abs().max().item<double>()));
    }
  }
}

TEST(PositionCheckpointTest, ATableGivesWayToSincosAndIsNotMissed) {
  VitConfig config = of_three_layers(PosEmbed::learned);
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  checkpoint::save_checkpoint(file, *VisionTransformer(config), checkpoint::Dtype::F32, {});
  const auto weights = checkpoint::Checkpoint::open(file);
  config.pos_embed = PosEmbed::sincos;
  VisionTransformer other(config);
  EXPECT_EQ(weights.load_into(*other).unused, std::vector<std::string>{"pos_embed"});
}

TEST(PositionCheckpointTest, TablesInEveryLayerBeginAsTheModelWithoutThem) {
  const c10::InferenceMode inference;
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  VisionTransformer plain(of_three_layers(PosEmbed::learned));
  plain->eval();
  checkpoint::save_checkpoint(file, *plain, checkpoint::Dtype::F32, {});
  const auto weights = checkpoint::Checkpoint::open(file);
  VisionTransformer tables(of_three_layers(PosEmbed::layers));
  tables->eval();
  EXPECT_EQ(weights.load_into(*tables).initialised,
            (std::vector<std::string>{"blocks.1.pos_embed", "blocks.2.pos_embed"}));
  for (const std::int64_t edge : {48, 96}) {
    const at::Tensor images = at::randn({2, 3, edge, edge});
    EXPECT_TRUE(at::equal(tables->forward(images), plain->forward(images)));
  }
  // And they can be left again.
  checkpoint::save_checkpoint(file, *tables, checkpoint::Dtype::F32, {});
  EXPECT_EQ(checkpoint::Checkpoint::open(file).load_into(*plain).unused,
            (std::vector<std::string>{"blocks.1.pos_embed", "blocks.2.pos_embed"}));
}

// The addition of a table, in modules, in the plan, and among the tokens that enter the blocks, at the
// training size and larger, by every interpolation and with an overview.
TEST(PositionCheckpointTest, TablesInEveryLayerAreAddedToThePatchesThatEnterIt) {
  const c10::InferenceMode inference;
  for (const PosInterp interpolation : {PosInterp::timm, PosInterp::hf, PosInterp::tile}) {
    for (const bool overview : {false, true}) {
      for (const char* mechanism : {"softmax", "window", "hydra"}) {
        SCOPED_TRACE(std::string(name(interpolation)) + ", " + mechanism);
        VitConfig config = of_three_layers(PosEmbed::layers);
        config.pos_interp = interpolation;
        config.overview = overview;
        config.attention.assign(3, {mechanism, {}});
        at::manual_seed(7);
        VisionTransformer model(config);
        model->eval();
        for (const auto& [name, tensor] : named_tensors(*model))
          at::Tensor(tensor).add_(at::randn(tensor.sizes()), 0.1);
        for (const std::int64_t edge : {48, 80}) {
          const at::Tensor images = at::randn({2, 3, edge, edge + 16});
          std::vector<at::Tensor> entering;
          ForwardOptions forward;
          forward.block_inputs = &entering;
          const at::Tensor expected = model->forward(images, forward);
          const TokenGrid grid = model->grid_of(images);
          const at::Tensor before = model->block(0).forward(entering[0], grid, Kernels::automatic);
          const at::Tensor added = (entering[1] - before).select(0, 1);
          const at::Tensor table = model->block(1).pos_embed();
          EXPECT_TRUE(at::equal(entering[1].select(1, 0), before.select(1, 0)));
          EXPECT_TRUE(testing::all_near(
              added.slice(0, 1, 1 + grid.num_patches()).unsqueeze(0),
              resample_pos_embed(table, 0, 3, 3, grid.rows, grid.columns, interpolation), 1e-5));
          inference::InferenceOptions options;
          options.trace_layers = {1, 2};
          inference::InferencePlan plan(model, options);
          const auto [logits, traced, features, exits] = plan.compute(images);
          EXPECT_TRUE(
              testing::all_near(logits, expected, 1e-5 * expected.abs().max().item<double>()));
          for (const std::int64_t layer : {1, 2}) {
            const at::Tensor& tokens = entering[static_cast<std::size_t>(layer)];
            EXPECT_TRUE(testing::all_near(traced.select(1, layer - 1), tokens,
                                          1e-5 * tokens.abs().max().item<double>()));
          }
        }
      }
    }
  }
}

TEST(PositionCheckpointTest, HalfOfASplitGateIsMissed) {
  const testing::Golden golden = read_golden("dinov3_plus");
  const testing::TemporaryFolder folder;
  checkpoint::Metadata torn = golden.metadata;
  Json tensors = Json::parse(torn.at("tensors"));
  tensors.erase("blocks.1.mlp.fc1_x.weight");
  torn["tensors"] = tensors.dump();
  const auto weights = checkpoint::Checkpoint::open(write_timms_files(folder, torn));
  VisionTransformer model(weights.deduce_config());
  EXPECT_ERROR(weights.load_into(*model), failed, "a part of blocks.1.mlp.fc1.weight");
}

// Gated MLPs, and those with a norm, in every precision of the plan.
TEST(GatedMlpTest, ThePlanComputesThemInEveryPrecision) {
  const c10::InferenceMode inference;
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed);
    VitConfig config = of_three_layers(PosEmbed::learned);
    config.swiglu_mlp = true;
    config.scale_mlp = normed;
    config.mlp_ratio = 2.5;
    at::manual_seed(8);
    VisionTransformer model(config);
    model->eval();
    for (const auto& [name, tensor] : named_tensors(*model))
      at::Tensor(tensor).add_(at::randn(tensor.sizes()), 0.1);
    const at::Tensor images = at::randn({3, 3, 48, 64});
    const at::Tensor expected = model->forward(images);
    const double size = expected.abs().max().item<double>();
    inference::InferenceOptions options;
    EXPECT_TRUE(testing::all_near(inference::InferencePlan(model, options).logits(images), expected,
                                  1e-5 * size));
    options.precision.dtype = at::kBFloat16;
    EXPECT_TRUE(testing::all_near(inference::InferencePlan(model, options).logits(images), expected,
                                  0.05 * size));
    options.precision = {};
    options.precision.int8 = true;
    EXPECT_TRUE(testing::all_near(inference::InferencePlan(model, options).logits(images), expected,
                                  0.1 * size));
  }
}

}  // namespace position_goldens_test
}  // namespace hydrascope::model
