#include "model/checkpoint/formats/weight_folder.h"

#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/weight_file.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace weight_folder_test {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;

class WeightFolderTest : public ::testing::Test {
 protected:
  void add(std::initializer_list<const char*> names) const {
    for (const char* name : names) folder_.write(name, "x");
  }
  /// The name of the file that is chosen.
  std::string chosen() {
    return choose_weights(folder_.path(), notes_).lexically_relative(folder_.path()).string();
  }
  TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST(WeightFoldersTest, TheFileThatStandsOutIsRead) {
  for (const testing::Json& row :
       testing::read_cases("model/checkpoint/formats/weight_folder.jsonl")) {
    testing::expect_case(row, [&] {
      const TemporaryFolder folder;
      std::vector<std::string> notes;
      for (const std::string name : row.at("files")) folder.write(name, "x");
      const fs::path chosen = choose_weights(folder.path(), notes);
      EXPECT_EQ(chosen.lexically_relative(folder.path()).string(), row.value("chosen", ""));
      EXPECT_EQ(row.value("notes", testing::Json(notes)), testing::Json(notes));
    });
  }
}

TEST_F(WeightFolderTest, OtherFormatsAreNamedByTheirFile) {
  EXPECT_FALSE(holds_weights(folder_.path()));
  folder_.write("tf_model.h5", "\x89HDF\r\n\x1A\n");
  EXPECT_ERROR(WeightFile::open(folder_.path()), unsupported_format, "an HDF5 file", "tf_model.h5");
  EXPECT_TRUE(holds_weights(folder_.path()));
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
