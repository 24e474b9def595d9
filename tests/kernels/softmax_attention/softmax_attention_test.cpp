#include "kernels/softmax_attention/softmax_attention.h"

#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/softmax_attention/softmax_attention_suite.h"

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

using Images = ::testing::Types<Image<float>, Image<BFloat16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Kernel, SoftmaxAttention, Images);
INSTANTIATE_TYPED_TEST_SUITE_P(Kernel, ExactSoftmaxAttention, Images);

TEST(SoftmaxAttentionTargets, EveryTargetBesideAmxEqualsTheTwin) {
  for_each_target_beside_amx([] {
    for (const std::int64_t head_dim : {48, 64})
      for (const std::int64_t rows : {1, 16, 27, 33, 45}) {
        Image<BFloat16> image(Shape{321, 2, head_dim}, Fill::normal);
        image.compare(rows);
      }
  });
}

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
