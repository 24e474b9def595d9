#include "model/inference/cpu/precision_choice.h"

#include "kernels/device/matrix_instructions.h"

#include <gtest/gtest.h>

namespace hydrascope::model::inference {
namespace precision_choice_test {

using kernels::Storage;
using kernels::device::allow_for_test;
using kernels::device::MatrixInstruction;
using kernels::device::may_use;

TEST(PrecisionChoiceTest, Bfloat16HasToWinByATenth) {
  EXPECT_EQ(faster_storage(StorageTimings{1.0, 0.55}), Storage::bfloat16);
  EXPECT_EQ(faster_storage(StorageTimings{1.0, 0.89}), Storage::bfloat16);
  EXPECT_EQ(faster_storage(StorageTimings{1.0, 0.91}), Storage::float32);
  EXPECT_EQ(faster_storage(StorageTimings{0.383, 0.628}), Storage::float32)
      << "a processor with the instructions and no speed from them";
  EXPECT_EQ(faster_storage(std::nullopt), Storage::float32);
}

TEST(PrecisionChoiceTest, WithoutInstructionsNothingIsMeasured) {
  const MatrixInstruction both[] = {MatrixInstruction::avx512_bf16, MatrixInstruction::amx_bf16};
  for (const MatrixInstruction one : both) allow_for_test(one, false);
  EXPECT_FALSE(measure_storages(192).has_value());
  EXPECT_EQ(row_storage(), Storage::float32);
  for (const MatrixInstruction one : both) allow_for_test(one, true);
  const bool multiplies = may_use(both[0]) || may_use(both[1]);
  EXPECT_EQ(row_storage(), multiplies ? Storage::bfloat16 : Storage::float32);
}

TEST(PrecisionChoiceTest, MeasuresEveryWidth) {
  if (!may_use(MatrixInstruction::avx512_bf16) && !may_use(MatrixInstruction::amx_bf16))
    GTEST_SKIP() << "this processor has no instructions for bfloat16";
  for (const std::int64_t embed_dim : {1, 100, 192, 4096}) {
    const auto timings = measure_storages(embed_dim);
    ASSERT_TRUE(timings.has_value());
    // Products of 96 rows take microseconds at least, and seconds under a sanitizer at most.
    for (const double seconds : {timings->float32, timings->bfloat16}) {
      EXPECT_GT(seconds, 1e-6) << embed_dim;
      EXPECT_LT(seconds, 10) << embed_dim;
    }
  }
}

}  // namespace precision_choice_test
}  // namespace hydrascope::model::inference
