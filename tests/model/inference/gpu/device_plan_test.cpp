// The GPU's plan against the modules, on the host: its kernels run under the block emulator, its
// products are plain loops, softmax is LibTorch's.
#include "model/inference/gpu/device_plan.h"

#include "kernels/error.h"
#include "tests/kernels/linear/host_products.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace device_plan_test {

using kernels::linear::cuda::ProductType;

/// What a graph does: the first run of a stretch launches, and so does every later one; counts
/// both.
class CountingRecorder final : public LaunchRecorder {
 public:
  void run(std::size_t stretch, const std::function<void()>& launches) override {
    ++runs[stretch];
    launches();
  }
  std::map<std::size_t, int> runs;
};

InferenceOptions options_of(ProductType type, Kernels kernels) {
  InferenceOptions options;
  options.precision.tf32 = type == ProductType::tf32;
  if (type == ProductType::bfloat16) options.precision.dtype = at::kBFloat16;
  if (type == ProductType::float16) options.precision.dtype = at::kHalf;
  options.kernels = kernels;
  return options;
}

/// Weights, the plan of the last shape, and what they need around them.
struct HostPlan {
  HostPlan(VisionTransformer model, ProductType type, Kernels kernels = Kernels::automatic)
      : weights(std::move(model), options_of(type, kernels)) {}

  at::Tensor logits(const at::Tensor& images) {
    const DevicePlan::Shape shape{images.size(0), images.size(2), images.size(3)};
    if (!plan || plan->shape().batch != shape.batch || plan->shape().height != shape.height ||
        plan->shape().width != shape.width)
      prepare(shape);
    plan->patchify(images);
    plan->run();
    return plan->logits().clone();
  }
  void prepare(const DevicePlan::Shape& shape) {
    DevicePlanOptions chosen;
    chosen.softmax = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      return at::scaled_dot_product_attention(q, k, v, {}, 0.0, false, 1.0);
    };
    chosen.trace_layers = trace_layers;
    recorder.runs.clear();
    plan.emplace(weights, std::move(chosen), products, recorder, shape);
  }

  DeviceWeights weights;
  kernels::test::HostProducts products;
  CountingRecorder recorder;
  std::vector<std::int64_t> trace_layers;
  std::optional<DevicePlan> plan;
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
  const at::Tensor images = at::randn({2, 3, 48, 80});
  for (const auto& change : shapes_of_model()) {
    VitConfig config = small("softmax:0,hydra:1,hedgehog:2");
    change(config);
    expect_equal_to_modules(config, images);
  }
}

TEST(DevicePlanTest, EqualsTheModulesForEveryFusedOption) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({1, 3, 40, 72});
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
  for (const char* local : {"conv5", "window7"})
    expect_equal(with_local_terms(small("hydra"), local));
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
  HostPlan hydra(filled(small("hydra")), ProductType::float32);
  hydra.logits(at::zeros({1, 3, 64, 64}));
  EXPECT_EQ(hydra.recorder.runs.size(), 1U) << "no call of LibTorch, one graph";
  EXPECT_EQ(hydra.weights.what_runs(), "fused");
  EXPECT_FALSE(hydra.weights.has_softmax());
  HostPlan mixed(filled(small("softmax:0,hydra:1,nystrom:2")), ProductType::float32);
  mixed.logits(at::zeros({1, 3, 64, 64}));
  EXPECT_EQ(mixed.recorder.runs.size(), 3U);
  EXPECT_EQ(mixed.weights.what_runs(), "fused+modules");
  EXPECT_TRUE(mixed.weights.has_softmax());
}

TEST(DevicePlanTest, ASmallerBatchLeavesTheOthersAlone) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({3, 3, 64, 64});
  for (const char* attention : {"hydra", "hedgehog", "hydra:0,hedgehog:1,hydra:2"}) {
    SCOPED_TRACE(attention);
    HostPlan host(filled(small(attention)), ProductType::bfloat16);
    const at::Tensor all = host.logits(images);
    EXPECT_TRUE(at::equal(host.logits(images), all)) << "the same call, the same bits";
    host.plan->patchify(images.narrow(0, 2, 1).contiguous());
    host.plan->run();
    EXPECT_TRUE(at::equal(host.plan->logits()[0], all[2]))
        << "an image's logits depend neither on its place nor on what is beside it";
  }
}

TEST(DevicePlanTest, SizesMayChangeBetweenCalls) {
  at::manual_seed(5);
  HostPlan host(filled(small("hydra:0,hedgehog:1,softmax:2")), ProductType::float32);
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {40, 88}, {64, 64}}) {
    const at::Tensor images = at::randn({2, 3, height, width});
    EXPECT_LT(relative(host.logits(images),
                       expected_logits(small("hydra:0,hedgehog:1,softmax:2"), images)),
              1e-4);
  }
}

TEST(DevicePlanTest, AFailureInTheMiddleLeavesTheWeightsUsable) {
  at::manual_seed(5);
  HostPlan host(filled(small("softmax:0,hydra:1,softmax:2")), ProductType::float32);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  const at::Tensor expected = host.logits(images);
  DevicePlanOptions failing;
  failing.softmax = [](const at::Tensor&, const at::Tensor&, const at::Tensor&) -> at::Tensor {
    throw Error(ErrorCode::out_of_memory, "no memory", "softmax");
  };
  {
    DevicePlan plan(host.weights, failing, host.products, host.recorder, {2, 64, 64});
    plan.patchify(images);
    EXPECT_THROW(plan.run(), Error);
  }
  host.plan.reset();
  EXPECT_TRUE(at::equal(host.logits(images), expected));
}

TEST(DevicePlanTest, BytesAreNormalisedOnTheDevice) {
  at::manual_seed(5);
  for (const bool overview : {false, true}) {
    SCOPED_TRACE(overview);
    VitConfig config = small("hydra");
    config.overview = overview;
    HostPlan host(filled(config), ProductType::float32);
    PixelImages bytes;
    bytes.pixels = at::randint(256, {2, 92, 93, 3}, at::kByte);  // the rest is padding
    bytes.mean = {0.485, 0.456, 0.406};
    bytes.std = {0.229, 0.224, 0.225};
    bytes.height = bytes.width = 96;
    at::Tensor images = at::zeros({2, 3, 96, 96});
    images.narrow(2, 0, 92).narrow(3, 0, 93).copy_(
        (bytes.pixels.permute({0, 3, 1, 2}).to(at::kFloat) / 255 -
         at::tensor({0.485F, 0.456F, 0.406F}).view({1, 3, 1, 1})) /
        at::tensor({0.229F, 0.224F, 0.225F}).view({1, 3, 1, 1}));
    const at::Tensor expected = host.logits(images);
    host.plan->patchify(bytes);
    host.plan->run();
    EXPECT_LT(relative(host.plan->logits(), expected), 1e-5);
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
    HostPlan traced(filled(config), type);
    traced.trace_layers = {0, 2};
    EXPECT_TRUE(at::equal(traced.logits(images), plain.logits(images)));
    EXPECT_FALSE(plain.plan->trace().defined());
    const at::Tensor trace = traced.plan->trace().to(at::kFloat);
    ASSERT_EQ(trace.sizes(), (std::vector<std::int64_t>{2, 2, 1 + 6 * 10, config.embed_dim}));
    EXPECT_LT(relative(trace.select(1, 0), inputs[0]), tolerance);
    EXPECT_LT(relative(trace.select(1, 1), inputs[2]), tolerance);
  }
}

TEST(DevicePlanTest, MechanismsWithoutKernelsAreRefusedWhereFusedIsAskedFor) {
  for (const char* attention : {"nystrom", "window"})
    EXPECT_THROW(HostPlan(filled(small(attention)), ProductType::float32, Kernels::fused), Error);
  // Windows have kernels on the CPU only.
  EXPECT_EQ(HostPlan(filled(small("window")), ProductType::float32).weights.what_runs(),
            "fused+modules");
}

}  // namespace device_plan_test
}  // namespace hydrascope::model::inference
