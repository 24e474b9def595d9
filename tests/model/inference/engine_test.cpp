#include "kernels/error.h"
#include "model/inference/overlap.h"
#include "tests/error_matchers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

namespace hydrascope::model::inference {
namespace engine_test {

/// Gives each image its mean, and counts batches.
class MeanEngine final : public Engine {
 public:
  MeanEngine() : Engine(VitConfig{}) {}
  int batches_ = 0;

 private:
  EngineOutputs run(const ImageBatch& batch) override {
    ++batches_;
    if (batch.size() == 0) throw Error(ErrorCode::internal, "a batch without images");
    return {batch.stacked().mean({1, 2, 3}), {}};
  }
};

TEST(EngineTest, ABatchThatIsStartedIsComputedAtOnceAndOnce) {
  MeanEngine engine;
  const at::Tensor images = at::arange(24, at::kFloat).reshape({2, 3, 2, 2});
  ImageBatch batch;
  batch.on_device = images;
  std::optional<PendingBatch> pending = start(engine, batch);
  EXPECT_EQ(engine.batches_, 1) << "before anybody waits";
  batch.on_device = images + 1;
  EXPECT_TRUE(at::equal(engine.compute(batch).logits, at::tensor({6.5F, 18.5F})));
  EXPECT_TRUE(at::equal(pending->get().logits, at::tensor({5.5F, 17.5F})));
  pending = start(engine, batch);  // dropped with its outputs
  EXPECT_EQ(engine.batches_, 3);
  EXPECT_EQ(most_under_way(engine), 1);
  EXPECT_FALSE(takes_bytes(engine));
}

TEST(EngineTest, ABatchThatFailsIsNotUnderWay) {
  MeanEngine engine;
  EXPECT_ERROR(start(engine, {}), internal, "without images");
  EXPECT_ERROR(engine.compute(ImageBatch{}), internal, "without images");
}

}  // namespace engine_test
}  // namespace hydrascope::model::inference
