// The model on a GPU against timm's logits. Skipped, with the reason, where there is none.
#include "model/checkpoint/checkpoint.h"
#include "model/device.h"
#include "model/inference/classifier.h"
#include "model/inference/overlap.h"
#include "model/registry/mechanisms.h"
#include "tests/error_matchers.h"
#include "tests/model/deterministic_weights.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace gpu_test {

const std::filesystem::path kRoot = HYDRASCOPE_SOURCE_DIR;

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string& reason = cuda_unavailable_reason(); !reason.empty())
      GTEST_SKIP() << "no GPU: " << reason;
  }
};

TEST_F(GpuTest, LogitsEqualTimmsInEveryPrecision) {
  const auto golden =
      checkpoint::SafetensorsFile::open(kRoot / "tests/data/goldens/deit_tiny_224.safetensors");
  const checkpoint::TensorView& view = *golden.find("logits");
  const at::Tensor expected =
      at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape, at::kFloat).clone();
  const at::Tensor input = at::empty({expected.size(0), 3, 224, 224});
  testing::fill_deterministic(
      "input", input.sizes(),
      {input.mutable_data_ptr<float>(), static_cast<std::size_t>(input.numel())},
      std::stoull(golden.metadata().at("seed")));
  const auto weights = checkpoint::Checkpoint::open(
      kRoot / "assets/models/deit_tiny_patch16_224.softmax.safetensors");
  // Logits span about 10; bfloat16 keeps 8 bits and tf32 and float16 11 through 12 blocks.
  const std::map<std::string, double> tolerances{
      {"float32", 2e-4}, {"tf32", 3e-2}, {"float16", 3e-2}, {"bfloat16", 0.25}};
  for (const auto& [precision, tolerance] : tolerances) {
    inference::InferenceOptions options;
    options.device = resolve_device("cuda");
    options.precision = resolve_precision(precision, options.device);
    EXPECT_EQ(options.precision.name(), precision);
    Classifier classifier(weights.deduce_config(), weights, options);
    EXPECT_TRUE(testing::all_near(classifier.engine().logits(input), expected, tolerance))
        << precision;
    options.kernels = Kernels::reference;
    Classifier reference(weights.deduce_config(), weights, options);
    EXPECT_TRUE(testing::all_near(reference.engine().logits(input), expected, tolerance))
        << precision << ", reference";
  }
}

/// Logits of a model with random weights, the same for every device.
at::Tensor random_logits(const std::string& attention, const std::string& device,
                         const std::string& precision, const at::Tensor& images) {
  const VitConfig config =
      testing::small_vit({.edge = 64, .dim = 128, .heads = 2, .classes = 11}, attention);
  at::manual_seed(3);
  inference::InferenceOptions options;
  options.device = resolve_device(device);
  options.precision = resolve_precision(precision, options.device);
  Classifier classifier(config, options);
  const at::Tensor first = classifier.engine().logits(images);
  // The second call captures its launches, the third repeats them.
  EXPECT_TRUE(at::equal(classifier.engine().logits(images), first)) << attention << ", captured";
  EXPECT_TRUE(at::equal(classifier.engine().logits(images), first)) << attention << ", repeated";
  return first;
}

TEST_F(GpuTest, EveryMechanismEqualsTheCpu) {
  const at::Tensor images = at::randn({3, 3, 64, 80});
  for (const MechanismEntry* entry : mechanisms()) {
    const std::string name(entry->name);
    const at::Tensor expected = random_logits(name, "cpu", "float32", images);
    for (const auto& [precision, tolerance] :
         {std::pair<const char*, double>{"float32", 1e-3}, {"bfloat16", 5e-2}}) {
      const at::Tensor found = random_logits(name, "cuda", precision, images);
      EXPECT_LT(((found - expected).norm() / expected.norm()).item<double>(), tolerance)
          << name << ", " << precision;
    }
  }
}

TEST_F(GpuTest, BytesAndOverlappingBatchesGiveWhatTensorsGive) {
  const auto weights = checkpoint::Checkpoint::open(
      kRoot / "assets/models/deit_tiny_patch16_224.softmax.safetensors");
  inference::InferenceOptions options;
  options.device = resolve_device("cuda");
  options.precision = resolve_precision("float32", options.device);
  Classifier classifier(weights.deduce_config(), weights, options);
  ASSERT_TRUE(takes_bytes(classifier.engine()));
  const std::array<double, 3> mean{0.485, 0.456, 0.406};
  const std::array<double, 3> std{0.229, 0.224, 0.225};
  std::vector<inference::ImageBatch> batches(3);
  std::vector<at::Tensor> expected;
  for (inference::ImageBatch& batch : batches) {
    batch.height = batch.width = 224;
    batch.mean = mean;
    batch.std = std;
    at::Tensor tensors = at::zeros({4, 3, 224, 224});
    for (std::int64_t i = 0; i < 4; ++i) {
      batch.images.push_back(at::randint(256, {224, 210, 3}, at::kByte));
      for (std::int64_t c = 0; c < 3; ++c)
        tensors[i][c].narrow(1, 0, 210).copy_(
            (batch.images.back().select(2, c).to(at::kFloat) / 255 -
             mean[static_cast<std::size_t>(c)]) /
            std[static_cast<std::size_t>(c)]);
    }
    expected.push_back(classifier.engine().logits(tensors));
  }
  inference::Engine& engine = classifier.engine();
  inference::PendingBatch first = start(engine, batches[0]);
  inference::PendingBatch second = start(engine, batches[1]);
  EXPECT_TRUE(testing::all_near(first.get().logits, expected[0], 1e-3));
  inference::PendingBatch third = start(engine, batches[2]);
  EXPECT_TRUE(testing::all_near(second.get().logits, expected[1], 1e-3));
  EXPECT_TRUE(testing::all_near(third.get().logits, expected[2], 1e-3));
}

TEST_F(GpuTest, AutomaticChoosesTheGpuAndBfloat16) {
  EXPECT_TRUE(resolve_device("auto").is_cuda());
  EXPECT_EQ(resolve_precision("auto", resolve_device("auto")).name(), "bfloat16");
  EXPECT_ERROR(resolve_device("cuda:99"), failed, "counted from 0");
}

TEST_F(GpuTest, OutOfMemoryIsAnErrorNotAnEnd) {
  const auto weights = checkpoint::Checkpoint::open(
      kRoot / "assets/models/deit_tiny_patch16_224.softmax.safetensors");
  inference::InferenceOptions options;
  options.device = resolve_device("cuda");
  options.kernels =
      Kernels::reference;  // 3 maps of 65537^2 floats: 51 GB each at this size, several at a time
  Classifier classifier(weights.deduce_config(), weights, options);
  EXPECT_ERROR(classifier.engine().logits(at::zeros({8, 3, 4096, 4096})), out_of_memory,
               "`batch_size`");
  EXPECT_NO_THROW(classifier.engine().logits(at::zeros({1, 3, 224, 224})));
}

TEST(DeviceTest, NamesWhatItCannotUse) {
  EXPECT_TRUE(resolve_device("cpu").is_cpu());
  EXPECT_ERROR(resolve_device("gpu"), invalid_argument, "auto, cpu, cuda or cuda:N", "'gpu'");
  EXPECT_ERROR(resolve_device("cuda:"), invalid_argument);
  EXPECT_ERROR(resolve_device("cuda:x"), invalid_argument);
  EXPECT_ERROR(resolve_device("cpu:0"), invalid_argument);
  if (!cuda_unavailable_reason().empty()) {
    EXPECT_TRUE(resolve_device("auto").is_cpu());
    EXPECT_ERROR(resolve_device("cuda"), failed, "CUDA cannot be used", "`device` cuda");
  }
}

TEST(PrecisionTest, WordsAndTheirLimits) {
  const c10::Device cpu(c10::kCPU);
  EXPECT_EQ(resolve_precision("auto", cpu).name(), "float32");
  EXPECT_EQ(resolve_precision("bfloat16", cpu).name(), "bfloat16");
  EXPECT_EQ(resolve_precision("float16", c10::Device(c10::kCUDA, 0)).name(), "float16");
  EXPECT_ERROR(resolve_precision("float16", cpu), invalid_argument, "GPUs only",
               "`precision` bfloat16");
  EXPECT_ERROR(resolve_precision("tf32", cpu), invalid_argument, "GPUs only");
  EXPECT_EQ(resolve_precision("int8", cpu).name(), "int8");
  EXPECT_EQ(resolve_precision("int8", cpu).dtype, at::kBFloat16) << "what is not 8 bits";
  EXPECT_ERROR(resolve_precision("int8", c10::Device(c10::kCUDA, 0)), invalid_argument,
               "the CPU only");
}

}  // namespace gpu_test
}  // namespace hydrascope::model
