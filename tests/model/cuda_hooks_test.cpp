// The traces that a model on the CPU's own kernels leaves behind for CUDA. LibTorch asks for its CUDA library once and keeps
// the answer, so that whoever asks before the library is loaded hides the GPU from the process for
// good; its convolution, which modules call, is one that asks. A program of its own: any other test
// could have asked.
#include "model/device.h"
#include "model/inference/classifier.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <memory>

namespace hydrascope::model {
namespace {

/// The hooks that libtorch_cuda registers when it is loaded.
struct LoadedHooks : at::CUDAHooksInterface {
  bool hasCUDA() const override { return true; }
};

TEST(CudaHooks, AreNotAskedForByAModelOnTheCpu) {
  seed_generators(1);
  const at::Tensor first = at::randn({4});
  for (const char* attention : {"softmax", "hydra", "hedgehog"}) {
    Classifier classifier(testing::small_vit({}, attention), inference::InferenceOptions{});
    EXPECT_TRUE(at::isfinite(classifier.logits(at::randn({1, 3, 32, 32}))).all().item<bool>());
  }
  seed_generators(1);
  EXPECT_TRUE(at::equal(at::randn({4}), first)) << "the processor's generator is seeded";

  at::CUDAHooksRegistry()->Register(
      "CUDAHooks", [](at::CUDAHooksArgs) { return std::make_unique<LoadedHooks>(); });
  EXPECT_TRUE(at::globalContext().hasCUDA()) << "LibTorch has been asked for CUDA already";
}

}  // namespace
}  // namespace hydrascope::model
