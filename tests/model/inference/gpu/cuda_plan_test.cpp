// A GPU's engine around its plan: batches on their way, sizes in turns, failures in the
// middle. Whatever is not waited for has not happened (tests/stand_in).
#include "kernels/error.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/gpu/host_device.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace cuda_plan_test {

class CudaPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    stand_in::reset();
    at::manual_seed(5);
  }
  void TearDown() override {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "LibTorch would report it as its own";
    EXPECT_EQ(stand_in::living(), living_) << "streams, events, graphs, descriptors";
    stand_in::reset();
  }

  static std::unique_ptr<Engine> make(const char* attention, bool deterministic = false) {
    InferenceOptions chosen;
    chosen.deterministic = deterministic;
    return make_cuda_plan(filled(small(attention)), chosen);
  }
  static ImageBatch from_host(const at::Tensor& images) {
    ImageBatch batch = batch_on_device({images});
    batch.on_device.reset();
    batch.images = images.unbind();
    return batch;
  }
  static at::Tensor logits(Engine& engine, const ImageBatch& batch) {
    return engine.compute(batch).logits;
  }
  static at::Tensor expected(const char* attention, const at::Tensor& images) {
    VisionTransformer model = filled(small(attention));
    return module_logits(model, images);
  }

 private:
  const int living_ = stand_in::living();
};

TEST_F(CudaPlanTest, BatchesOverlap) {
  for (const char* attention : {"hydra", "softmax:0,hydra:1,elu:2"}) {
    SCOPED_TRACE(attention);
    const auto engine = make(attention);
    std::vector<at::Tensor> images;
    std::vector<at::Tensor> wanted;
    for (int i = 0; i < 6; ++i) {
      images.push_back(at::randn({2, 3, 64, 64}));
      wanted.push_back(expected(attention, images.back()));
    }
    EXPECT_EQ(most_under_way(*engine), 2);
    EXPECT_TRUE(takes_bytes(*engine));
    PendingBatch oldest = start(*engine, from_host(images[0]));
    for (std::size_t i = 1; i < images.size(); ++i) {
      PendingBatch next = start(*engine, from_host(images[i]));
      EXPECT_LT(relative(oldest.get().logits, wanted[i - 1]), 1e-4) << i;
      oldest = std::move(next);
    }
    EXPECT_LT(relative(oldest.get().logits, wanted.back()), 1e-4);
  }
}

TEST_F(CudaPlanTest, ABatchThatIsDroppedIsWaitedFor) {
  const auto engine = make("hydra:0,softmax:1-2");
  std::vector<at::Tensor> images;
  for (int i = 0; i < 6; ++i) images.push_back(at::randn({2, 3, 64, 64}));
  const auto right = [&](PendingBatch& batch, const at::Tensor& of) {
    return relative(batch.get().logits, expected("hydra:0,softmax:1-2", of)) < 1e-4;
  };
  for (std::size_t i = 0; i + 1 < images.size(); ++i) {
    std::optional<PendingBatch> dropped = start(*engine, from_host(images[i]));
    PendingBatch kept = start(*engine, batch_on_device(images[i + 1]));
    dropped.reset();
    PendingBatch next = start(*engine, from_host(images[i]));
    EXPECT_TRUE(right(next, images[i])) << "the later one first";
    EXPECT_TRUE(right(kept, images[i + 1]));
  }
  stand_in::fail("cudaEventSynchronize", cudaErrorLaunchFailure);
  EXPECT_NO_THROW(static_cast<void>(start(*engine, from_host(images[0]))));
  PendingBatch after = start(*engine, from_host(images[1]));
  EXPECT_TRUE(right(after, images[1]));
}

TEST_F(CudaPlanTest, TheCallersStreamIsWaitedFor) {
  const auto engine = make("hydra");
  const at::Tensor images = at::randn({2, 3, 64, 64});
  const at::Tensor written = at::zeros_like(images);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kCPU).getNewStream(c10::kCPU);
  for (int i = 0; i < 3; ++i) {
    std::optional<PendingBatch> under_way;
    {
      const c10::StreamGuard guard(stream);
      auto* handle = static_cast<cudaStream_t>(stream.native_handle());
      stand_in::put(handle,
                    [to = written.mutable_data_ptr<float>(), from = images.const_data_ptr<float>(),
                     bytes = images.nbytes()] { std::memcpy(to, from, bytes); });
      under_way.emplace(start(*engine, batch_on_device(written)));
    }
    EXPECT_LT(relative(under_way->get().logits, expected("hydra", images)), 1e-4);
    written.zero_();
  }
}

TEST_F(CudaPlanTest, SizesInTurnsAreKeptAndTheOldestGoes) {
  const auto engine = make("hydra");
  const auto plans = [&](std::int64_t batch, std::int64_t edge) {
    const at::Tensor images = at::randn({batch, 3, edge, 64});
    const int before = stand_in::calls("cudaStreamSynchronize");
    EXPECT_LT(relative(logits(*engine, from_host(images)), expected("hydra", images)), 1e-4);
    return stand_in::calls("cudaStreamSynchronize") > before;
  };
  for (const std::int64_t edge : {64, 72, 80, 88}) EXPECT_TRUE(plans(2, edge));
  EXPECT_FALSE(plans(2, 64));
  EXPECT_FALSE(plans(1, 64)) << "half of it in vain";
  EXPECT_TRUE(plans(5, 64)) << "more images, and the fifth plan: that of 72 goes";
  EXPECT_FALSE(plans(2, 80));
  EXPECT_TRUE(plans(2, 72));
}

TEST_F(CudaPlanTest, RefusesWhatItCannotHold) {
  const auto engine = make("hydra");
  const ImageBatch one = from_host(at::randn({1, 3, 64, 64}));
  EXPECT_ERROR(start(*engine, {}), internal, "without images");
  ImageBatch uneven = from_host(at::randn({2, 3, 64, 64}));
  uneven.images[1] = at::randn({3, 64, 72});
  EXPECT_ERROR(start(*engine, uneven), internal, "differ in size");
  EXPECT_ERROR(start(*engine, batch_on_device(at::randn({1, 3, 60, 64}))), internal,
               "multiples of 8, found 60x64");
  PendingBatch first = start(*engine, one);
  PendingBatch second = start(*engine, one);
  EXPECT_ERROR(start(*engine, one), internal, "more batches");
  EXPECT_TRUE(at::equal(first.get().logits, second.get().logits));
  ImageBatch other_size = batch_on_device(at::randn({1, 3, 64, 64}));
  other_size.width = 72;
  EXPECT_ERROR(start(*engine, other_size), internal, "is invalid for input of size");
}

// Every call of CUDA and cuBLASLt in the middle of everything fails once.
TEST_F(CudaPlanTest, AFailureAnywhereLeavesAnEngineThatWorks) {
  const at::Tensor images = at::randn({1, 3, 24, 32});
  const at::Tensor wanted = expected("softmax:0,hydra:1-2", images);
  int failed = 0;
  for (const char* call : {"cudaLaunchKernel",
                           "cudaMemcpyAsync",
                           "cudaStreamBeginCapture",
                           "cudaStreamEndCapture",
                           "cudaGraphInstantiate",
                           "cudaGraphLaunch",
                           "cudaEventCreateWithFlags",
                           "cudaEventRecord",
                           "cudaStreamWaitEvent",
                           "cudaEventSynchronize",
                           "cudaEventElapsedTime",
                           "cudaStreamSynchronize",
                           "cublasLtMatmul",
                           "cublasLtMatmulDescCreate",
                           "cublasLtMatmulDescSetAttribute",
                           "cublasLtMatmulPreferenceCreate",
                           "cublasLtMatmulPreferenceSetAttribute",
                           "cublasLtMatrixLayoutCreate",
                           "cublasLtMatrixLayoutSetAttribute",
                           "cublasLtMatmulAlgoGetHeuristic"}) {
    SCOPED_TRACE(call);
    const auto engine = make("softmax:0,hydra:1-2");
    for (const int at : {0, 3, 40}) {
      stand_in::fail(call, cudaErrorLaunchFailure, at);
      for (int i = 0; i < 3; ++i) {
        try {
          EXPECT_LT(relative(logits(*engine, from_host(images)), wanted), 1e-4);
        } catch (const std::exception&) {
          ++failed;
        }
      }
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "LibTorch would report it as its own";
      stand_in::reset();
      EXPECT_LT(relative(logits(*engine, from_host(images)), wanted), 1e-4);
    }
  }
  EXPECT_GE(failed, 20);
}

TEST_F(CudaPlanTest, ACaptureThatFailsLeavesAnEngineThatWorks) {
  const auto engine = make("hydra");
  const at::Tensor images = at::randn({1, 3, 24, 32});
  const at::Tensor wanted = logits(*engine, from_host(images));  // loads the kernels
  stand_in::fail("cudaLaunchKernel", cudaErrorInvalidValue, 3);
  EXPECT_ERROR(start(*engine, from_host(images)), failed, "CUDA says");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(logits(*engine, from_host(images)), wanted));
}

TEST_F(CudaPlanTest, MemoryOfOtherSizesIsGivenBack) {
  const auto engine = make("hydra:0,softmax:1-2");
  const at::Tensor small_images = at::randn({1, 3, 64, 64});
  const at::Tensor large_images = at::randn({1, 3, 256, 256});
  const at::Tensor small_logits = logits(*engine, from_host(small_images));
  {
    const stand_in::MemoryLimit nothing(100000);
    EXPECT_ERROR(start(*engine, from_host(large_images)), out_of_memory,
                 "a batch of 1 images of 256x256");
  }
  EXPECT_TRUE(at::equal(logits(*engine, from_host(small_images)), small_logits));
  logits(*engine, from_host(at::randn({4, 3, 128, 128})));
  // The large one fits when the plans of the other sizes are gone.
  const stand_in::MemoryLimit enough(8'000'000);
  EXPECT_LT(relative(logits(*engine, from_host(large_images)),
                     expected("hydra:0,softmax:1-2", large_images)),
            1e-4);
  stand_in::fail("cublasLtMatmulDescCreate", 3);  // CUBLAS_STATUS_ALLOC_FAILED
  EXPECT_NO_THROW(logits(*engine, from_host(small_images))) << "the second try has the memory";
}

TEST_F(CudaPlanTest, SaysHowItMultiplies) {
  for (const bool deterministic : {false, true}) {
    const auto engine = make("softmax", deterministic);
    logits(*engine, from_host(at::randn({2, 3, 64, 64})));
    const EngineDescription says = engine->describe();
    EXPECT_EQ(says.kernels, "fused+softmax:flash");
    ASSERT_FALSE(says.products.empty());
    EXPECT_EQ(says.products.front(), "2 x 64 x 192 times 192 x 96 float32, algorithm " +
                                         std::string(deterministic ? "21" : "66"));
  }
}

}  // namespace cuda_plan_test
}  // namespace hydrascope::model::inference
