#include "kernels/softmax_attention/softmax_attention.h"

#include "kernels/softmax_attention/few_queries.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/softmax_attention/softmax_attention_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

using softmax_attention::Shape;

template <class T>
class SoftmaxAttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxAttentionKernel, CpuTypes);

TYPED_TEST(SoftmaxAttentionKernel, EqualsTheTwinOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {1, 2, 31, 32, 33, 197, 198}) {
      Image<TypeParam> image(Shape{num_tokens, 2, 64}, Fill::normal);
      compare(image, std::min<std::int64_t>(num_tokens, 45));
    }
    for (const std::int64_t head_dim : {1, 7, 16, 32, 48, 80, 96, 128}) {
      Image<TypeParam> image(Shape{67, 2, head_dim}, Fill::normal);
      compare(image, 13);
    }
    // Several blocks of keys, the last one odd.
    for (const std::int64_t num_tokens : {577, 1089}) {
      Image<TypeParam> image(Shape{num_tokens, 1, 64}, Fill::normal);
      compare(image, 20);
    }
  });
}

TEST(SoftmaxAttentionTargets, EveryTargetBesideAmxEqualsTheTwin) {
  for_each_target_beside_amx([] {
    for (const std::int64_t num_tokens : {33, 321}) {
      Image<BFloat16> image(Shape{num_tokens, 2, 64}, Fill::normal);
      compare(image, 33);
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, EqualsTheTwinForEveryNumberOfKeysInTheLastPanel) {
  for_each_instruction_set([] {
    for (std::int64_t num_tokens = 1; num_tokens <= 130; ++num_tokens) {
      Image<TypeParam> image(Shape{num_tokens, 1, 64}, Fill::normal);
      compare(image, std::min<std::int64_t>(num_tokens, 1 + num_tokens % 7));
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, EqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills) {
    SCOPED_TRACE(static_cast<int>(how));
    for (const std::int64_t num_tokens : {33, 577}) {
      Image<TypeParam> image(Shape{num_tokens, 3, 64}, how);
      compare(image, 31);
    }
  }
}

TYPED_TEST(SoftmaxAttentionKernel, MoreRowsThanAGroupOfQueries) {
  Image<TypeParam> image(Shape{577, 1, 16}, Fill::normal);
  compare(image, 577);
}

TYPED_TEST(SoftmaxAttentionKernel, TheMaximumMayRiseInEveryBlock) {
  for_each_instruction_set([] {
    for (const bool rising : {true, false}) {
      Image<TypeParam> image(Shape{1500, 1, 64}, Fill::normal);
      let_scores_rise(image, rising);
      for (std::int64_t c = 0; c < 64; ++c) image.q.at(2, c) = TypeParam(1.0F);  // nearly one-hot
      compare(image, 9);
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, PackingTilesInAnyOrderFillsTheSamePanels) {
  for_each_instruction_set([] {
    for (const Shape& shape : {Shape{197, 2, 64}, Shape{198, 1, 80}, Shape{66, 3, 5}})
      expect_the_same_panels_in_any_order<TypeParam>(shape);
  });
}

TYPED_TEST(SoftmaxAttentionKernel, ARowDependsNeitherOnItsTileNorOnWhereItIsWritten) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {197, 601})
      expect_rows_of_their_own<TypeParam>(Shape{num_tokens, 2, 48});
  });
}

TYPED_TEST(SoftmaxAttentionKernel, NanReachesWhatItBelongsTo) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {70, 577}) {
      const std::int64_t last = num_tokens - 1;
      for (const std::int64_t key : {std::int64_t{5}, last}) {
        Image<TypeParam> image(Shape{num_tokens, 2, 32}, Fill::normal);
        image.q.at(3, 2) = TypeParam(kNaN);         // a query of head 0
        image.v.at(key, 32 + 7) = TypeParam(kNaN);  // a column of head 1
        image.run(9);
        for (std::int64_t row = 0; row < 9; ++row)
          for (std::int64_t c = 0; c < 64; ++c)
            ASSERT_EQ(image.y.is_nan(row, c), (row == 3 && c < 32) || c == 32 + 7)
                << row << ", " << c;
        image.k.at(key, 1) = TypeParam(kNaN);  // a key of head 0: everybody's sum
        image.run(9);
        for (std::int64_t row = 0; row < 9; ++row)
          for (std::int64_t c = 0; c < 64; ++c)
            ASSERT_EQ(image.y.is_nan(row, c), c < 32 || c == 32 + 7) << row << ", " << c;
      }
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, InfiniteScoresAsTheQuotientSays) {
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_instruction_set([&] {
    Image<TypeParam> image(Shape{1100, 1, 16}, Fill::ones);
    for (std::int64_t j = 0; j < 1090; ++j) {  // whole blocks of -inf before the first finite score
      image.k.at(j, 0) = TypeParam(-infinity);
      image.v.at(j, 4) = TypeParam(9.0F);
    }
    for (std::int64_t c = 0; c < 16; ++c) image.q.at(1, c) = TypeParam(-0.25F);
    image.run(2);
    EXPECT_NEAR(image.y.of(0, 4), 1.0F, 1e-5F);
    EXPECT_TRUE(image.y.is_nan(1, 4));  // +inf - inf
    for (std::int64_t j = 1090; j < 1100; ++j) image.k.at(j, 0) = TypeParam(-infinity);
    image.run(1);
    EXPECT_TRUE(image.y.is_nan(0, 4));  // no key counts: 0 / 0
  });
}

TYPED_TEST(SoftmaxAttentionKernel, QueriesSeeTheirKeysAndNoOthers) {
  for_each_instruction_set([] {
    for (const Shape& shape :
         {Shape{2, 2, 64}, Shape{33, 1, 64}, Shape{64, 2, 32}, Shape{97, 2, 80}, Shape{130, 3, 5},
          Shape{441, 2, 64}, Shape{577, 1, 64}, Shape{1089, 1, 16}}) {
      const std::int64_t rows = std::min<std::int64_t>(shape.num_tokens, 27);
      for (const Seen& seen : patterns_of_seen_keys(rows, shape.num_tokens)) {
        Image<TypeParam> image(shape, Fill::normal);
        image.pack(0, shape.num_tokens);
        image.attend(0, rows, image.y, seen.bits<TypeParam>().data());
        expect_rows(image.y, image.reference(rows, seen.keys.data()), 0, tolerance(image, rows),
                    "N " + std::to_string(shape.num_tokens));
      }
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, UnseenKeysMayHoldAnything) {
  for_each_instruction_set([] {
    const Seen seen(9, 600, [](std::int64_t row, std::int64_t key) { return key % 9 == row; });
    Image<TypeParam> image(Shape{600, 1, 32}, Fill::normal);
    for (std::int64_t key = 0; key < 600; key += 9) image.k.at(key, 3) = TypeParam(kNaN);
    image.pack(0, 600);
    image.attend(0, 9, image.y, seen.bits<TypeParam>().data());
    for (std::int64_t row = 0; row < 9; ++row)
      for (std::int64_t c = 0; c < 32; ++c) ASSERT_EQ(image.y.is_nan(row, c), row == 0) << row;
  });
}

TYPED_TEST(SoftmaxAttentionKernel, PartsOfDisjointKeysAreOneSoftmax) {
  for_each_instruction_set([] {
    for (const Shape& shape :
         {Shape{40, 2, 64}, Shape{197, 2, 32}, Shape{70, 3, 5}, Shape{1089, 1, 64}}) {
      constexpr std::int64_t kParts = 3;
      const std::int64_t rows = std::min<std::int64_t>(shape.num_tokens, 25);
      Image<TypeParam> image(shape, Fill::normal);
      image.pack(0, shape.num_tokens);
      const std::size_t size = softmax_attention::part_size(rows, shape.num_heads, shape.head_dim);
      std::vector<float> parts;
      for (std::int64_t i = 0; i < kParts; ++i) {
        // Rows of twelve in a row, and so whole strips, see nothing in two of the parts.
        const Seen seen(rows, shape.num_tokens, [i](std::int64_t row, std::int64_t key) {
          return (row < 12 ? 1 : (key * key + row) % kParts) == i;
        });
        Guarded<float> part(size);
        image.attend(0, rows, image.y, seen.bits<TypeParam>().data(), part.data());
        EXPECT_TRUE(part.intact());
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(image.y.is_nan(0, 0)) << "y is written, too";
      softmax_attention::merge_parts(softmax_attention::MergeParams<TypeParam>{
          shape.num_heads, shape.head_dim, rows, parts.data(), static_cast<std::int64_t>(size),
          kParts, image.y.data(), image.y.stride});
      expect_rows(image.y, image.reference(rows), 0, tolerance(image, rows),
                  "N " + std::to_string(shape.num_tokens));
    }
  });
}

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
