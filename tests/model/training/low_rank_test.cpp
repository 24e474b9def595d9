#include "model/training/low_rank.h"

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/peft_adapter.h"
#include "model/checkpoint/scalar_type.h"
#include "model/training/parameter_groups.h"
#include "model/training/training_state.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

namespace hydrascope::model::training {
namespace {

using hydrascope::testing::TemporaryFolder;

constexpr double kRounding = 1e-6;  // of logits near one, after one addition to each weight

class LowRankTest : public ::testing::Test {
 protected:
  LowRankTest() : model_(random_model(small_config())), groups_(parameter_groups(*model_, {})) {
    model_->train();
  }

  LowRankUpdates updates(LowRankOptions options = {.rank = 2}) {
    return {*model_, groups_, std::move(options), 3};
  }
  at::Tensor logits() {
    const at::NoGradGuard no_grad;
    return model_->forward(images_);
  }
  /// Steps of AdamW towards other labels.
  void learn(LowRankUpdates& updates, const ForwardOptions& options = {}) {
    Optimizer optimizer(groups_, {});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      updates.enter();
      model_->forward(images_, options).square().sum().backward();
      optimizer.step(1e-2);
    }
  }

  at::Tensor images_ = random_images(3);
  VisionTransformer model_;
  std::vector<ParameterGroup> groups_;
};

TEST_F(LowRankTest, TheModelBeginsAsItselfAndLearnsNoOtherWeights) {
  const at::Tensor before = logits();
  const at::Tensor weight = parameter(*model_, "blocks.0.attn.qkv.weight").clone();
  const at::Tensor norm = parameter(*model_, "blocks.0.norm1.weight").clone();
  const at::Tensor head = parameter(*model_, "head.weight").clone();
  LowRankUpdates updates = this->updates();
  updates.enter();
  EXPECT_TRUE(at::equal(logits(), before)) << "B is zero";
  learn(updates);
  updates.enter();
  EXPECT_GT((logits() - before).abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(at::equal(parameter(*model_, "blocks.0.attn.qkv.weight"), weight));
  EXPECT_TRUE(at::equal(parameter(*model_, "blocks.0.norm1.weight"), norm));
  EXPECT_FALSE(at::equal(parameter(*model_, "head.weight"), head)) << "classifiers learn";
}

TEST_F(LowRankTest, SettledWeightsAnswerAsEnteredOnesAndAreAddedOnce) {
  LowRankUpdates updates = this->updates();
  learn(updates);
  updates.enter();
  const at::Tensor entered = logits();
  updates.settle();
  EXPECT_TRUE(at::allclose(logits(), entered, kRounding, kRounding));
  updates.settle();
  EXPECT_TRUE(at::allclose(logits(), entered, kRounding, kRounding));
  updates.enter();
  EXPECT_TRUE(at::allclose(logits(), entered, kRounding, kRounding));
}

TEST_F(LowRankTest, ASettledStateGoesOnBitForBit) {
  VisionTransformer other = random_model(small_config());
  std::vector<ParameterGroup> groups = parameter_groups(*other, {});
  LowRankUpdates resumed(*other, groups, {.rank = 2}, 99);
  LowRankUpdates updates = this->updates();
  learn(updates);
  updates.settle();
  {
    const at::NoGradGuard no_grad;
    const auto values = model_->named_parameters();
    for (const auto& item : other->named_parameters()) item.value().copy_(values[item.key()]);
  }
  resumed.load_state(updates.state());
  resumed.enter();
  updates.enter();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(other->forward(images_), model_->forward(images_)));
}

TEST_F(LowRankTest, BlocksThatAreRecomputedGiveTheSameGradients) {
  LowRankUpdates updates = this->updates({.rank = 2, .targets = "qkv,proj,fc1,fc2"});
  learn(updates);
  std::vector<std::vector<at::Tensor>> gradients;
  for (const bool recompute : {false, true}) {
    Optimizer optimizer(groups_, {});
    optimizer.zero_grad();
    updates.enter();
    model_->forward(images_, {.recompute_blocks = recompute}).square().sum().backward();
    std::vector<at::Tensor>& of_run = gradients.emplace_back();
    for (const at::Tensor& tensor : optimizer.parameters()) {
      ASSERT_TRUE(tensor.grad().defined());
      of_run.push_back(tensor.grad().clone());
    }
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(at::allclose(gradients[0][i], gradients[1][i], 1e-5, 1e-7)) << i;
}

TEST_F(LowRankTest, AnAdapterOfPeftGivesTheSameModel) {
  TemporaryFolder folder;
  const auto base = folder.path() / "base.safetensors";
  checkpoint::save_checkpoint(base, *model_, checkpoint::Dtype::F32, {});
  LowRankUpdates updates = this->updates({.rank = 2, .alpha = 3});
  EXPECT_TRUE(updates.is_adapter());
  learn(updates);
  updates.save(folder.path() / "adapter", "base");
  updates.settle();
  const checkpoint::Checkpoint merged(
      checkpoint::with_adapter(checkpoint::WeightFile::open(base), folder.path() / "adapter"));
  VisionTransformer other(merged.deduce_config());
  merged.load_into(*other);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(other->forward(images_), logits(), kRounding, kRounding));
}

TEST(PeftAdapterTest, APublishedModelGetsTheWeightsThatPeftMerges) {
  const std::filesystem::path tests = std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests";
  const auto load = [](const checkpoint::WeightFile& file) {
    const checkpoint::Checkpoint weights(file);
    VisionTransformer model(weights.deduce_config());
    weights.load_into(*model);
    return model;
  };
  const auto base = checkpoint::WeightFile::open(tests / "corpus/weights/transformers_5/vit");
  VisionTransformer found = load(checkpoint::with_adapter(base, tests / "data/peft"));
  VisionTransformer expected = load(checkpoint::WeightFile::open(tests / "data/peft/merged"));
  double farthest_from_base = 0;
  const auto values = expected->named_parameters(), before = load(base)->named_parameters();
  for (const auto& item : found->named_parameters()) {
    const at::Tensor value = item.value().detach();
    EXPECT_TRUE(at::allclose(value, values[item.key()], 1e-6, 1e-7)) << item.key();
    farthest_from_base =
        std::max(farthest_from_base, (value - before[item.key()]).abs().max().item<double>());
  }
  EXPECT_GT(farthest_from_base, 0.1);
}

TEST(PeftAdapterTest, TensorsAreThoseThatPeftMergesWhenItOpensTheAdapter) {
  const std::filesystem::path tests = std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests";
  const auto base = checkpoint::WeightFile::open(tests / "corpus/weights/transformers_5/vit");
  for (const char* name : {"biases", "pissa", "olora"}) {
    SCOPED_TRACE(name);
    const auto folder = tests / "data/peft" / name;
    const auto found = checkpoint::with_adapter(base, folder);
    const auto merged = checkpoint::WeightFile::open(folder / "merged.safetensors");
    std::map<std::string, at::Tensor> expected;
    for (const auto* file : {&base, &merged})  // the second has what is not the base's
      for (const auto& tensor : file->tensors()) expected[tensor.name] = copy_of(tensor);
    EXPECT_EQ(found.tensors().size(), expected.size());
    for (const auto& tensor : found.tensors())
      EXPECT_TRUE(at::allclose(copy_of(tensor), expected.at(tensor.name), 1e-5, 1e-6))
          << tensor.name;
  }
}

TEST_F(LowRankTest, AnAdapterThatIsNotUnderstoodIsRefused) {
  TemporaryFolder folder;
  const auto base = folder.path() / "base.safetensors";
  checkpoint::save_checkpoint(base, *model_, checkpoint::Dtype::F32, {});
  updates().save(folder.path() / "adapter", "base");
  const auto open = [&](const std::string& config) {
    folder.write("adapter/adapter_config.json", config);
    return checkpoint::with_adapter(checkpoint::WeightFile::open(base), folder.path() / "adapter");
  };
  const auto open_with = [&](const std::string& setting) {
    return open(R"({"peft_type": "LORA", "lora_alpha": 4, "r": 2, )" + setting + "}");
  };
  open_with(R"("use_dora": false, "alpha_pattern": {}, "newest": 0, "other": "", "last": null)");
  open_with(R"("init_lora_weights": "orthogonal", "bias": "all", "lora_dropout": 0.1)");
  // As version 0.1 wrote it.
  open_with(
      R"("base_model_name_or_path": "base", "bias": "none", "fan_in_fan_out": false,
         "inference_mode": true, "lora_dropout": 0.0, "modules_to_save": ["head"],
         "target_modules": ["qkv", "proj"], "task_type": null)");
  EXPECT_ERROR(open(R"({"peft_type": "IA3", "lora_alpha": 4})"), unsupported_format,
               "peft_type is \"IA3\"");
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"use_dora", "true"},
                                          {"fan_in_fan_out", "true"},
                                          {"alpha_pattern", R"({"qkv": 8})"},
                                          {"use_bdlora", R"({"nblocks": 2})"},
                                          {"bias", "\"some\""},
                                          {"newest", "0.5"}})
    EXPECT_ERROR(open_with('"' + key + "\": " + value), unsupported_format,
                 ('"' + key + '"').c_str(), "is not computed here", "merge_and_unload");
  // Starts of A and B that PEFT takes from the base by chance or by data, and ones to come.
  for (const char* start : {"pissa_niter_4", "corda", "loftq", "eva", "lora_ga", "newest"})
    EXPECT_ERROR(open_with(R"("init_lora_weights": ")" + std::string(start) + '"'),
                 unsupported_format, "init_lora_weights", start,
                 "path_initial_model_for_weight_conversion");
  EXPECT_ERROR(open(R"({"peft_type": "LORA"})"), decode_failed, "lora_alpha");
  for (const char* ranks : {"[2]", "4", "\"qkv\"", R"({"qkv": "2"})", R"({"qkv": 2, "fc1": null})"})
    EXPECT_ERROR(open_with(R"("rank_pattern": )" + std::string(ranks)), decode_failed,
                 "expected rank_pattern, an object of numbers");
  EXPECT_ERROR(open_with(R"("use_rslora": "no")"), decode_failed, "expected use_rslora");
  // An adapter of a deeper model.
  VisionTransformer deeper = random_model(testing::small_vit({.depth = 5}, "softmax"));
  std::vector<ParameterGroup> groups = parameter_groups(*deeper, {});
  LowRankUpdates(*deeper, groups, {.rank = 2}, 1).save(folder.path() / "deeper", "deeper");
  EXPECT_ERROR(
      checkpoint::with_adapter(checkpoint::WeightFile::open(base), folder.path() / "deeper"),
      invalid_argument, "is for no tensor of", "belongs to the model");
  // Tensors that PEFT writes for other kinds of layers, or for biases of another length.
  const auto open_tensors = [&](const NamedTensors& tensors) {
    write_tensors(folder.path() / "adapter/adapter_model.safetensors", tensors, {});
    return open_with(R"("lora_bias": true)");
  };
  const std::string layer = "base_model.model.blocks.0.attn.qkv.lora_";
  const auto shape = parameter(*model_, "blocks.0.attn.qkv.weight").sizes().vec();
  EXPECT_ERROR(open_tensors({{layer + "embedding_A", at::zeros({2, 3})}}), unsupported_format,
               "lora_embedding_A is not computed here", "merge_and_unload");
  EXPECT_ERROR(open_tensors({{layer + "B.bias", at::zeros({5})}}), invalid_argument,
               "has no lora_A beside it");
  const NamedTensors product{{layer + "A.weight", at::zeros({2, shape[1]})},
                             {layer + "B.weight", at::zeros({shape[0], 2})}};
  open_tensors(product);
  NamedTensors other = product;
  other.emplace_back(layer + "B.bias", at::zeros({5}));
  EXPECT_ERROR(open_tensors(other), invalid_argument, "lora_B.bias (5) is not (");
  other = product;
  other[0].second = at::zeros({2, shape[1], 1, 1});
  EXPECT_ERROR(open_tensors(other), invalid_argument, "do not make");
  other = product;
  other.emplace_back("base_model.model.head.modules_to_save.weight", at::zeros({5, 8}));
  EXPECT_ERROR(open_tensors(other), invalid_argument,
               "modules_to_save.weight has no base_model.model.head.weight beside it");
}

TEST_F(LowRankTest, TheRankIsThatOfTheSettings) {
  TemporaryFolder folder;
  const auto base = folder.path() / "base.safetensors";
  checkpoint::save_checkpoint(base, *model_, checkpoint::Dtype::F32, {});
  std::filesystem::create_directory(folder.path() / "adapter");
  const std::string name = "blocks.0.attn.qkv.weight";
  const at::Tensor weight = parameter(*model_, name).detach().clone();  // (3 D, D)
  const std::int64_t dim = weight.size(1);
  const auto merge = [&](const at::Tensor& b, const at::Tensor& a, const std::string& settings) {
    const std::string layer = "base_model.model.blocks.0.attn.qkv.lora_";
    write_tensors(folder.path() / "adapter/adapter_model.safetensors",
                  {{layer + "A.weight", a}, {layer + "B.weight", b}}, {});
    folder.write("adapter/adapter_config.json",
                 R"({"peft_type": "LORA", "lora_alpha": 4, )" + settings + "}");
    const auto merged =
        checkpoint::with_adapter(checkpoint::WeightFile::open(base), folder.path() / "adapter");
    return copy_of(*std::ranges::find(merged.tensors(), name, &checkpoint::TensorView::name));
  };
  // PEFT's PiSSA before a step: all singular values, r / alpha = D times too great, give the base.
  const std::string above = std::to_string(4 * dim);
  EXPECT_TRUE(at::allclose(
      merge(weight * dim, at::eye(dim), R"("init_lora_weights": "pissa", "r": )" + above), weight,
      1e-4, 1e-5));
  const at::Tensor b = at::ones({3 * dim, 2}), a = at::ones({2, dim});
  for (const char* settings :
       {R"("r": 2)", R"("r": 8, "rank_pattern": {"attn.qkv": 2, "fc1": 4})",
        R"("r": 8, "rank_pattern": {".*\\.qkv": 2})", R"("r": 2, "rank_pattern": {"kv": 8})"})
    EXPECT_TRUE(at::allclose(merge(b, a, settings), weight + 4, 1e-5, 1e-5)) << settings;
  for (const char* settings : {R"("r": 8)", R"("r": 2, "rank_pattern": {"qkv": 8})",
                               R"("r": 4, "init_lora_weights": "pissa")"})
    EXPECT_ERROR(merge(b, a, settings), invalid_argument, "has 2 rows, which are not the rank");
  EXPECT_ERROR(merge(b, a, R"("lora_dropout": 0)"), decode_failed, "expected r, a number");
}

TEST_F(LowRankTest, ARankOrTargetThatFitsNothingIsRefused) {
  EXPECT_ERROR(updates({.rank = 4096}), invalid_argument, "is no low rank");
  groups_ = parameter_groups(*model_, {});
  EXPECT_ERROR(updates({.rank = 2, .targets = ""}), invalid_argument, "lora.targets");
  groups_ = parameter_groups(*model_, {});
  EXPECT_ERROR(updates({.rank = 2, .targets = "qkv,query"}), invalid_argument, "no linear layer");
}

}  // namespace
}  // namespace hydrascope::model::training
