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
    for (const std::int64_t num_tokens : {33, 321}) {
      Image<BFloat16> image(Shape{num_tokens, 2, 64}, Fill::normal);
      image.compare(33);
    }
  });
}

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
