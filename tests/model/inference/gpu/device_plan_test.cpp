// The GPU's plan against the modules, on the host: its kernels run under the block emulator, CUDA
// and cuBLASLt are stand-ins (tests/stand_in), softmax is LibTorch's.
#include "kernels/error.h"
#include "kernels/linear/products.h"
#include "model/inference/gpu/softmax_backend.h"
#include "model/registry/positions.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/gpu/host_device.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace device_plan_test {

using kernels::linear::cuda::ProductType;

InferenceOptions options_of(ProductType type, Kernels kernels,
                            std::vector<std::int64_t> trace_layers) {
  InferenceOptions options;
  options.trace_layers = std::move(trace_layers);
  options.precision.tf32 = type == ProductType::tf32;
  if (type == ProductType::bfloat16) options.precision.dtype = at::kBFloat16;
  if (type == ProductType::float16) options.precision.dtype = at::kHalf;
  options.kernels = kernels;
  return options;
}

/// A GPU's engine on the host.
struct HostPlan {
  HostPlan(const VisionTransformer& model, ProductType type, Kernels kernels = Kernels::automatic,
           std::vector<std::int64_t> trace_layers = {})
      : engine(make_cuda_plan(model, options_of(type, kernels, std::move(trace_layers)))) {}

  at::Tensor logits(const at::Tensor& images) const { return engine->logits(images); }
  at::Tensor logits(const ImageBatch& batch) const { return engine->compute(batch).logits; }
  [[nodiscard]] std::string kernels() const { return engine->describe().kernels; }

  std::unique_ptr<Engine> engine;
};

at::Tensor device_logits(const VitConfig& config, ProductType type, const at::Tensor& images) {
  return HostPlan(filled(config), type).logits(images);
}

at::Tensor expected_logits(const VitConfig& config, const at::Tensor& images) {
  VisionTransformer model = filled(config);
  return module_logits(model, images);
}

void expect_equal_to_modules(const VitConfig& config, const at::Tensor& images) {
  const at::Tensor expected = expected_logits(config, images);
  EXPECT_LT(relative(device_logits(config, ProductType::float32, images), expected), 1e-4);
  // Two roundings of 2^-9 a value, on some ten tensors a block.
  EXPECT_LT(relative(device_logits(config, ProductType::bfloat16, images), expected), 5e-2);
}

class DevicePlanOfMechanism : public ::testing::TestWithParam<std::string> {};

TEST_P(DevicePlanOfMechanism, EqualsTheModules) {
  at::manual_seed(5);
  expect_equal_to_modules(small(GetParam()), at::randn({2, 3, 64, 64}));
}

INSTANTIATE_TEST_SUITE_P(All, DevicePlanOfMechanism, ::testing::ValuesIn(mechanism_names()),
                         [](const auto& mechanism) { return mechanism.param; });

TEST(DevicePlanTest, TensorCoresServeHeadsOf64) {
  at::manual_seed(5);
  for (const char* attention : {"hedgehog", "elu", "hydra:0,hedgehog:1,softmax:2"}) {
    SCOPED_TRACE(attention);
    VitConfig config = small(attention);
    config.embed_dim = 128;
    config.num_heads = 2;
    expect_equal_to_modules(config, at::randn({2, 3, 80, 72}));
    EXPECT_EQ(HostPlan(filled(config), ProductType::bfloat16).kernels(), "fused");
    EXPECT_EQ(HostPlan(filled(config), ProductType::float32).kernels(), "fused+modules");
  }
}

TEST(DevicePlanTest, EqualsTheModulesInFloat16) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 64, 64});
  for (const char* attention : {"hydra", "hedgehog", "elu"}) {
    SCOPED_TRACE(attention);
    EXPECT_LT(relative(device_logits(small(attention), ProductType::float16, images),
                       expected_logits(small(attention), images)),
              1e-2);
  }
}

TEST(DevicePlanTest, EqualsTheModulesForEveryShapeOfModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 24, 40});
  for (const auto& change : shapes_of_model()) {
    VitConfig config = small("softmax:0,hydra:1,hedgehog:2");
    change(config);
    expect_equal_to_modules(config, images);
  }
}

TEST(DevicePlanTest, EqualsTheModulesForEveryFusedOption) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 24, 40});
  for (const auto& [name, config] : fused_variants()) {
    SCOPED_TRACE(name);
    EXPECT_LT(relative(device_logits(config, ProductType::float32, images),
                       expected_logits(config, images)),
              1e-4);
  }
}

TEST(DevicePlanTest, EqualsTheModulesWhereTheSizeDecides) {
  at::manual_seed(5);
  expect_equal_to_modules(sized_by_the_picture(), at::randn({1, 3, 104, 136}));
}

// The overview's patches are cut from a picture that is reduced on the device.
TEST(DevicePlanTest, EqualsTheModulesWithAnOverview) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 72, 88});
  const auto expect_equal = [&](VitConfig config) {
    config.overview = true;
    ASSERT_GT(config.token_grid_of_pixels(72, 88).num_overview(), 0);
    expect_equal_to_modules(config, images);
  };
  for (const char* attention : {"softmax", "window:0,hedgehog:1-2"}) expect_equal(small(attention));
  expect_equal(with_local_terms(small("hydra"), "window7"));
  VitConfig config = small("window:0,hydra:1,hedgehog:2");
  config.pos_interp = PosInterp::tile;
  config.distilled = true;
  expect_equal(config);
  config.no_embed_class = true;
  expect_equal(config);
  config.class_token = config.distilled = false;
  config.global_pool = Pooling::avg;
  expect_equal(config);
}

TEST(DevicePlanTest, WhatIsRecordedIsOneStretchBetweenCallsOfLibTorch) {
  const auto graphs_of = [](const HostPlan& plan) {
    stand_in::reset();
    at::Tensor first = plan.logits(at::ones({1, 3, 64, 64}));
    EXPECT_EQ(stand_in::calls("cudaGraphInstantiate"), 0) << "the first call loads kernels";
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(at::equal(plan.logits(at::ones({1, 3, 64, 64})), first));
    EXPECT_EQ(stand_in::calls("cudaGraphLaunch"), 2 * stand_in::calls("cudaGraphInstantiate"));
    return stand_in::calls("cudaGraphInstantiate");
  };
  const HostPlan hydra(filled(small("hydra")), ProductType::bfloat16);
  EXPECT_EQ(graphs_of(hydra), 1) << "LibTorch begins and ends, one graph";
  EXPECT_EQ(hydra.kernels(), "fused");
  const HostPlan mixed(filled(small("softmax:0,hydra:1,nystrom:2")), ProductType::bfloat16);
  EXPECT_EQ(mixed.kernels(), "fused+modules") << "no softmax has been chosen";
  EXPECT_EQ(graphs_of(mixed), 3);
  EXPECT_EQ(mixed.kernels(), "fused+modules+softmax:flash");
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EQ(graphs_of(HostPlan(filled(small("hydra")), ProductType::bfloat16)), 0);
  unsetenv("CUDA_LAUNCH_BLOCKING");
}

TEST(DevicePlanTest, ASmallerBatchLeavesTheOthersAlone) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 64, 64});
  for (const char* attention : {"hydra", "hedgehog", "hydra:0,hedgehog:1,hydra:2"}) {
    SCOPED_TRACE(attention);
    const HostPlan host(filled(small(attention)), ProductType::bfloat16);
    const at::Tensor all = host.logits(images);
    EXPECT_TRUE(at::equal(host.logits(images), all)) << "the same call, the same bits";
    EXPECT_TRUE(at::equal(host.logits(images.narrow(0, 1, 2).contiguous()), all.narrow(0, 1, 2)))
        << "an image's logits depend neither on its place nor on what is beside it";
  }
}

TEST(DevicePlanTest, BytesAreNormalisedOnTheDevice) {
  at::manual_seed(5);
  for (const bool overview : {false, true}) {
    SCOPED_TRACE(overview);
    VitConfig config = small("hydra");
    config.overview = overview;
    HostPlan host(filled(config), ProductType::float32);
    ImageBatch bytes;
    const at::Tensor pixels = at::randint(256, {2, 92, 93, 3}, at::kByte);  // the rest is padding
    bytes.images = pixels.unbind();
    bytes.mean = {0.485, 0.456, 0.406};
    bytes.std = {0.229, 0.224, 0.225};
    bytes.height = bytes.width = 96;
    at::Tensor images = at::zeros({2, 3, 96, 96});
    images.narrow(2, 0, 92).narrow(3, 0, 93).copy_(
        (pixels.permute({0, 3, 1, 2}).to(at::kFloat) / 255 -
         at::tensor({0.485F, 0.456F, 0.406F}).view({1, 3, 1, 1})) /
        at::tensor({0.229F, 0.224F, 0.225F}).view({1, 3, 1, 1}));
    const at::Tensor expected = host.logits(images);
    EXPECT_LT(relative(host.logits(bytes), expected), 1e-5);
  }
}

TEST(DevicePlanTest, TracedTokensAreTheModules) {
  at::manual_seed(5);
  const VitConfig config = small("softmax:0,hydra:1,hedgehog:2");
  const at::Tensor images = at::randn({2, 3, 48, 80});
  VisionTransformer model = filled(config);
  const std::vector<at::Tensor> inputs = block_inputs_of(model, images);
  for (const auto& [type, tolerance] :
       {std::pair{ProductType::float32, 1e-4}, {ProductType::bfloat16, 5e-2}}) {
    HostPlan plain(filled(config), type);
    HostPlan traced(filled(config), type, Kernels::automatic, {0, 2});
    const EngineOutputs of_plain = plain.engine->compute(images);
    const auto [logits, trace, features, exits] = traced.engine->compute(images);
    EXPECT_TRUE(at::equal(logits, of_plain.logits));
    EXPECT_FALSE(of_plain.tokens.defined());
    ASSERT_EQ(trace.sizes(), (std::vector<std::int64_t>{2, 2, 1 + 6 * 10, config.embed_dim}));
    EXPECT_LT(relative(trace.select(1, 0), inputs[0]), tolerance);
    EXPECT_LT(relative(trace.select(1, 1), inputs[2]), tolerance);
  }
}

// A backend that refuses a shape warns of its reasons, which are no news.
TEST(SoftmaxBackendTest, RefusalsAreQuiet) {
  SoftmaxBackend softmax(nullptr, /*deterministic=*/true);
  const at::Tensor q = at::randn({1, 2, 5, 8});
  const at::Tensor v = at::randn({1, 2, 5, 4});  // heads of two sizes: no fused backend
  ::testing::internal::CaptureStderr();
  const at::Tensor found = softmax.attend(q, q, v);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(softmax.name(), "math");
  EXPECT_LT(relative(found, at::matmul(at::softmax(at::matmul(q, q.mT()), -1), v)), 1e-5);
}

TEST(DevicePlanTest, MechanismsWithoutKernelsAreRefusedWhereFusedIsAskedFor) {
  for (const char* attention : {"nystrom", "window"})
    EXPECT_THROW(HostPlan(filled(small(attention)), ProductType::float32, Kernels::fused), Error);
  // Windows have kernels on the CPU only, tensor cores want heads of 64.
  EXPECT_EQ(HostPlan(filled(small("window")), ProductType::float32).kernels(), "fused+modules");
  EXPECT_EQ(HostPlan(filled(small("hedgehog")), ProductType::bfloat16).kernels(), "fused+modules");
  EXPECT_ERROR(HostPlan(filled(small("hedgehog")), ProductType::bfloat16, Kernels::fused),
               invalid_argument, "no kernels for 'hedgehog' of this size in this precision",
               "blocks.0.attn");
  VitConfig turned = small("softmax");
  turned.rel_pos.assign(static_cast<std::size_t>(turned.depth), {});
  apply_position_spec("rope", turned.rel_pos);
  EXPECT_ERROR(HostPlan(filled(turned), ProductType::bfloat16, Kernels::fused), invalid_argument,
               "with the position rule 'rope' on a GPU", "blocks.0.attn");
}

}  // namespace device_plan_test
}  // namespace hydrascope::model::inference
