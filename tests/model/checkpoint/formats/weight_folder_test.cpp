#include "model/checkpoint/formats/weight_folder.h"

#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/weight_file.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace weight_folder_test {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WeightFolderTest : public ::testing::Test {
 protected:
  void add(std::initializer_list<const char*> names) const {
    for (const char* name : names) folder_.write(name, "x");
  }
  /// The name of the file that is chosen.
  std::string chosen() {
    notes_.clear();
    return choose_weights(folder_.path(), notes_).lexically_relative(folder_.path()).string();
  }
  TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(WeightFolderTest, TimmsTrainingFolderGivesItsBest) {
  add({"args.yaml", "summary.csv", "last.pth.tar", "checkpoint-0.pth.tar", "checkpoint-1.pth.tar"});
  EXPECT_EQ(chosen(), "last.pth.tar");
  EXPECT_THAT(notes_, ElementsAre("last.pth.tar is read, one of 3 files of weights in the folder"));
  add({"model_best.pth.tar"});
  EXPECT_EQ(chosen(), "model_best.pth.tar");
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("model_best.pth.tar is read, one of 4 files")));
}

TEST_F(WeightFolderTest, UsualNamesComeInOrder) {
  add({"other.pth", "pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
       "pytorch_model-00002-of-00002.bin"});
  EXPECT_EQ(chosen(), "pytorch_model.bin.index.json");
  add({"pytorch_model.bin"});
  EXPECT_EQ(chosen(), "pytorch_model.bin");
  add({"model.safetensors.index.json"});
  EXPECT_EQ(chosen(), "model.safetensors.index.json");
  add({"model.safetensors"});
  EXPECT_EQ(chosen(), "model.safetensors");
  EXPECT_THAT(notes_,
              ElementsAre("model.safetensors is read, one of 3 files of weights in the folder"));
}

TEST_F(WeightFolderTest, WhatTrainersKeepBesideIsNoCandidate) {
  add({"._model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin",
       "scaler.pt", "config.json", "epoch=3-step=40.ckpt"});
  EXPECT_EQ(chosen(), "epoch=3-step=40.ckpt");
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(WeightFolderTest, SeveralAreListedWhereNoneStandsOut) {
  add({"a.pth", "b.pth", "bestiary.pth"});
  EXPECT_ERROR(chosen(), invalid_argument, "3 files of weights (a.pth, b.pth, bestiary.pth)",
               "name one of them");
  add({"best-1.ckpt", "best-2.ckpt"});
  EXPECT_ERROR(chosen(), invalid_argument, "5 files of weights");
}

TEST_F(WeightFolderTest, ShardsNeedTheirIndex) {
  add({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"});
  EXPECT_ERROR(chosen(), failed, "their index (*.index.json) is missing");
}

TEST_F(WeightFolderTest, CheckpointsOfATrainerLieInFolders) {
  fs::create_directory(folder_.path() / "checkpoint-10");
  fs::create_directory(folder_.path() / "runs");
  add({"checkpoint-10/model.safetensors", "checkpoint-10/optimizer.pt", "runs/events"});
  EXPECT_EQ(chosen(), "checkpoint-10/model.safetensors");
  EXPECT_THAT(notes_, ElementsAre("the weights are those of the folder checkpoint-10"));
  fs::create_directory(folder_.path() / "checkpoint-20");
  add({"checkpoint-20/pytorch_model.bin"});
  EXPECT_ERROR(chosen(), invalid_argument, "2 folders with weights (checkpoint-10, checkpoint-20)");
}

TEST_F(WeightFolderTest, OtherFormatsAreNamedByTheirFile) {
  EXPECT_ERROR(chosen(), not_found, "no model.safetensors");
  EXPECT_FALSE(holds_weights(folder_.path()));
  folder_.write("tf_model.h5", "\x89HDF\r\n\x1A\n");
  EXPECT_ERROR(WeightFile::open(folder_.path()), unsupported_format, "an HDF5 file", "tf_model.h5");
  EXPECT_TRUE(holds_weights(folder_.path()));
  // The numbers beside a description of an OpenVINO model are none of ours.
  fs::remove(folder_.path() / "tf_model.h5");
  folder_.write("openvino_model.xml", "<?xml version=\"1.0\"?><net name=\"a\">");
  add({"openvino_model.bin"});
  EXPECT_ERROR(WeightFile::open(folder_.path()), unsupported_format, "an OpenVINO model");
  folder_.write("openvino_model.bin", "\1\2\3\4\5\6\7\x08\x09\x0A");
  EXPECT_ERROR(WeightFile::open(folder_.path() / "openvino_model.bin"), unsupported_format,
               "an OpenVINO model");
}

TEST_F(WeightFolderTest, ALinkToNothingIsNoAbsentFile) {
  fs::create_symlink("/absent", folder_.path() / "model.safetensors");
  add({"pytorch_model.bin"});
  EXPECT_ERROR(WeightFile::open(folder_.path()), not_found, "a link to one that does not exist",
               "model.safetensors");
}

TEST_F(WeightFolderTest, AnAdapterIsNoModel) {
  folder_.write(
      "adapter_config.json",
      R"({"peft_type": "LORA", "base_model_name_or_path": "google/vit-base-patch16-224"})");
  EXPECT_ERROR(
      chosen(), unsupported_format,
      "a LoRA adapter of \"google/vit-base-patch16-224\", not a whole model: merge it first",
      "merge_and_unload");
  add({"adapter_model.safetensors", "optimizer.pt"});
  EXPECT_ERROR(chosen(), unsupported_format, "a LoRA adapter");
  add({"model.safetensors"});
  EXPECT_ERROR(chosen(), invalid_argument,
               "an adapter (adapter_config.json) beside model.safetensors");
  fs::remove(folder_.path() / "model.safetensors");
  folder_.write("adapter_config.json", R"({"peft_type": "IA3", "base_model_name_or_path": null})");
  EXPECT_ERROR(chosen(), unsupported_format,
               "an IA3 adapter of a model that no adapter_config.json");
  folder_.write("adapter_config.json", R"({"peft_type": "PROMPT_TUNING"})");
  EXPECT_ERROR(chosen(), unsupported_format, "a prompt of PEFT", "cannot be merged");
  folder_.write("adapter_config.json", R"({"peft_type": "NEWEST"})");
  EXPECT_ERROR(chosen(), unsupported_format, "an adapter (\"NEWEST\")");
  folder_.write("adapter_config.json", R"({"model_name": "base", "config": {}})");
  EXPECT_ERROR(chosen(), unsupported_format, "an adapter of \"base\"");
  folder_.write("adapter_config.json", "{");
  EXPECT_ERROR(chosen(), decode_failed, "adapter_config.json");
}

TensorView tensor(const char* name, Dtype dtype = Dtype::F32,
                  std::vector<std::int64_t> shape = {2, 2}) {
  return {name, dtype, std::move(shape), {}};
}
void check(const std::vector<TensorView>& tensors) { check_is_model(tensors, "a.safetensors"); }

TEST(RefusedWeightsTest, AdaptersAreKnownByTheirTensors) {
  EXPECT_NO_THROW(check({tensor("blocks.0.attn.qkv.weight"), tensor("norm.weight")}));
  EXPECT_ERROR(check({tensor("base_model.model.vit.layer.0.query.lora_A.weight"),
                      tensor("base_model.model.classifier.modules_to_save.weight")}),
               unsupported_format, "a LoRA adapter of a model that no", "merge it first");
  EXPECT_ERROR(check({tensor("lora_unet_down.lora_down.weight")}), unsupported_format, "LoRA");
  EXPECT_ERROR(check({tensor("a.lora_A"), tensor("a.lora_E")}), unsupported_format, "AdaLoRA");
  EXPECT_ERROR(check({tensor("base_model.a.ia3_l")}), unsupported_format, "IA3");
  EXPECT_ERROR(check({tensor("a.oft_r")}), unsupported_format, "OFT");
  EXPECT_ERROR(check({tensor("a.hada_w1_a")}), unsupported_format, "LoHa");
  EXPECT_ERROR(check({tensor("patch_embed.proj.weight"), tensor("blocks.0.q.base_layer.weight"),
                      tensor("blocks.0.q.lora_A.default.weight")}),
               unsupported_format, "a LoRA adapter beside them that is not merged");
}

TEST(RefusedWeightsTest, AnAdapterWithTheModelsNamesIsKnownByItsOwn) {
  const TemporaryFolder folder;
  folder.write("adapter_config.json", R"({"peft_type": "LN_TUNING"})");
  const std::vector<TensorView> tensors{tensor("base_model.model.norm.weight")};
  EXPECT_ERROR(check_is_model(tensors, folder.path() / "adapter_model.safetensors"),
               unsupported_format, "an adapter (\"LN_TUNING\")");
  EXPECT_NO_THROW(check_is_model(tensors, folder.path() / "model.safetensors"));
}

TEST(RefusedWeightsTest, QuantisedWeightsAreKnownByTheirScales) {
  const auto with = [](const char* weight, Dtype dtype, const char* scale) {
    check({tensor(weight, dtype), tensor(scale, Dtype::F32, {1}), tensor("norm.weight")});
  };
  EXPECT_NO_THROW(with("a.weight", Dtype::F8_E4M3, "b.bias"));
  EXPECT_NO_THROW(with("a.weight", Dtype::F32, "a.weight_scale"));
  for (const char* scale :
       {"a.weight_scale", "a.weight_scale_inv", "a.scale_weight", "a.SCB", "a.weight.absmax",
        "a.weight._scale", "a.weight_zero_point", "scaled_fp8", "a.input_scale"}) {
    for (const Dtype dtype : {Dtype::F8_E4M3, Dtype::F8_E5M2FNUZ, Dtype::I8, Dtype::U8}) {
      EXPECT_ERROR(with("a.weight", dtype, scale), unsupported_format, "the weights are quantised",
                   "\"a.weight\"", scale, "a.safetensors", "dequantise");
    }
  }
  EXPECT_ERROR(with("a.qweight", Dtype::I32, "a.scales"), unsupported_format, "quantised");
}

}  // namespace weight_folder_test
}  // namespace hydrascope::checkpoint
