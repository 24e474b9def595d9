// Suites of softmax attention that hold however it multiplies. They run over kinds of images: Image<T>, or
// one that attends in another way.
#pragma once

#include "kernels/softmax_attention/few_queries.h"
#include "tests/kernels/softmax_attention/softmax_attention_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

/// The instruction sets that such images are tried on beside the first test's, which is on all.
template <class Kind, class Body>
void for_sets_of(const Body& body) {
  if constexpr (Kind::kSlow)
    body();
  else
    for_each_instruction_set(body);
}

template <class Kind>
class SoftmaxAttention : public ::testing::Test {};
TYPED_TEST_SUITE_P(SoftmaxAttention);

TYPED_TEST_P(SoftmaxAttention, EqualsTheTwinOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {1, 2, 3, 31, 32, 33, 197, 198}) {
      TypeParam image(Shape{num_tokens, 2, 64}, Fill::normal);
      image.compare(std::min<std::int64_t>(num_tokens, 45));
    }
    for (const std::int64_t head_dim : {1, 7, 16, 32, 48, 80, 96, 128}) {
      if (head_dim < TypeParam::kLeastHeadDim) continue;
      TypeParam image(Shape{67, 2, head_dim}, Fill::normal);
      image.compare(TypeParam::kBytes ? 13 : 17);
    }
    // Several blocks of keys, the last one odd, and more rows than a group of queries.
    for (const std::int64_t num_tokens : {513, 577, 1089}) {
      TypeParam image(Shape{num_tokens, 1, 64}, Fill::normal);
      image.compare(TypeParam::kSlow ? 20 : 200);
    }
  });
}

TYPED_TEST_P(SoftmaxAttention, EqualsTheTwinForEveryNumberOfKeysInTheLastPanel) {
  for_sets_of<TypeParam>([] {
    for (std::int64_t num_tokens = 1; num_tokens <= 130; ++num_tokens) {
      TypeParam image(Shape{num_tokens, 1, TypeParam::kBytes ? 32 : 64}, Fill::normal);
      image.compare(std::min<std::int64_t>(num_tokens, 1 + num_tokens % 13));
    }
  });
}

TYPED_TEST_P(SoftmaxAttention, EqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills) {
    SCOPED_TRACE(static_cast<int>(how));
    for (const Shape& shape :
         {Shape{33, 3, 64}, Shape{577, 3, 64}, Shape{577, 3, 80}, Shape{577, 3, 128}}) {
      TypeParam image(shape, how);
      image.compare(31);
    }
  }
}

TYPED_TEST_P(SoftmaxAttention, TheMaximumMayRiseInEveryBlock) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const bool rising : {true, false}) {
      // Scores of queries 0 and 1 go from -30 to 30 over the keys, or back.
      TypeParam image(Shape{1500, 1, 64}, Fill::normal);
      for (std::int64_t j = 0; j < 1500; ++j)
        for (std::int64_t c = 0; c < 64; ++c)
          image.k.at(j, c) = T(0.04F * static_cast<float>(rising ? j - 750 : 750 - j) / 8.0F);
      for (std::int64_t c = 0; c < 64; ++c) {
        image.q.at(0, c) = T(0.125F);
        image.q.at(1, c) = T(-0.125F);
        if (!TypeParam::kBytes) image.q.at(2, c) = T(1.0F);  // nearly one-hot
      }
      image.compare(9);
    }
  });
}

TYPED_TEST_P(SoftmaxAttention, PackingTilesInAnyOrderFillsTheSamePanels) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const Shape& shape : {Shape{197, 2, 64}, Shape{198, 1, 80}, Shape{67, 3, 5}}) {
      TypeParam once(shape, Fill::normal);
      TypeParam tiles(shape, Fill::normal);
      once.pack(0, shape.num_tokens);
      tiles.pack(62, shape.num_tokens - 62);
      tiles.pack(0, 0);
      tiles.pack(37, 25);  // one after the other, `first` may be odd
      tiles.pack(0, 37);
      EXPECT_EQ(0, std::memcmp(once.keys.data(), tiles.keys.data(), once.keys.size() * sizeof(T)));
      EXPECT_EQ(
          0, std::memcmp(once.values.data(), tiles.values.data(), once.values.size() * sizeof(T)));
    }
  });
}

TYPED_TEST_P(SoftmaxAttention, ARowDependsNeitherOnItsTileNorOnWhereItIsWritten) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const Shape& shape : {Shape{197, 2, 48}, Shape{333, 1, 64}, Shape{601, 2, 48}}) {
      TypeParam image(shape, Fill::normal);
      image.run(197);
      image.attend(150, 47, image.q);
      image.attend(0, 0, image.q);
      image.attend(0, 9, image.q);
      image.attend(9, 141, image.q);
      for (std::int64_t row = 0; row < 197; ++row)
        ASSERT_EQ(0, std::memcmp(&image.q.at(row, 0), &image.y.at(row, 0),
                                 static_cast<std::size_t>(image.width) * sizeof(T)))
            << "row " << row;
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(SoftmaxAttention, EqualsTheTwinOnEveryShapeAndInstructionSet,
                            EqualsTheTwinForEveryNumberOfKeysInTheLastPanel,
                            EqualsTheTwinOnEveryKindOfInput, TheMaximumMayRiseInEveryBlock,
                            PackingTilesInAnyOrderFillsTheSamePanels,
                            ARowDependsNeitherOnItsTileNorOnWhereItIsWritten);

/// Properties that 8 bits do not have: an error bound for every row, columns of their own, infinite
/// scores, keys that are not seen, parts.
template <class Kind>
class ExactSoftmaxAttention : public ::testing::Test {};
TYPED_TEST_SUITE_P(ExactSoftmaxAttention);

TYPED_TEST_P(ExactSoftmaxAttention, EqualsTheTwinForEveryNumberOfRowsInTheLastStrip) {
  for (const std::int64_t rows : {1, 15, 16, 17, 31, 32, 33, 48, 197, 577}) {
    TypeParam image(Shape{577, 1, 32}, Fill::normal);
    image.compare(rows);
  }
}

TYPED_TEST_P(ExactSoftmaxAttention, NanReachesWhatItBelongsTo) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const std::int64_t num_tokens : {70, 577}) {
      for (const std::int64_t key : {std::int64_t{5}, num_tokens - 1}) {
        TypeParam image(Shape{num_tokens, 2, 32}, Fill::normal);
        const auto expect_nan = [&](auto is_nan) {
          image.run(19);
          for (std::int64_t row = 0; row < 19; ++row)
            for (std::int64_t c = 0; c < 64; ++c)
              ASSERT_EQ(image.y.is_nan(row, c), is_nan(row, c)) << row << ", " << c;
        };
        image.q.at(3, 2) = T(kNaN);         // a query of head 0
        image.v.at(key, 32 + 7) = T(kNaN);  // a column of head 1
        expect_nan(
            [](std::int64_t row, std::int64_t c) { return (row == 3 && c < 32) || c == 32 + 7; });
        image.k.at(key, 1) = T(kNaN);  // a key of head 0: everybody's sum
        expect_nan([](std::int64_t, std::int64_t c) { return c < 32 || c == 32 + 7; });
      }
    }
  });
}

TYPED_TEST_P(ExactSoftmaxAttention, InfiniteScoresAsTheQuotientSays) {
  using T = typename TypeParam::Value;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for_sets_of<TypeParam>([] {
    TypeParam image(Shape{1100, 1, 32}, Fill::ones);
    for (std::int64_t j = 0; j < 1090; ++j) {  // whole blocks of -inf before the first finite score
      image.k.at(j, 0) = T(-kInfinity);
      image.v.at(j, 4) = T(9.0F);
    }
    for (std::int64_t c = 0; c < 32; ++c) image.q.at(1, c) = T(-0.25F);
    image.run(2);
    EXPECT_NEAR(image.y.of(0, 4), 1.0F, 1e-5F);
    EXPECT_TRUE(image.y.is_nan(1, 4));  // +inf - inf
    for (std::int64_t j = 1090; j < 1100; ++j) image.k.at(j, 0) = T(-kInfinity);
    image.run(1);
    EXPECT_TRUE(image.y.is_nan(0, 4));  // no key counts: 0 / 0
  });
}

TYPED_TEST_P(ExactSoftmaxAttention, QueriesSeeTheirKeysAndNoOthers) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const Shape& shape :
         {Shape{2, 2, 64}, Shape{33, 1, 64}, Shape{64, 2, 32}, Shape{97, 2, 80}, Shape{130, 3, 5},
          Shape{441, 2, 64}, Shape{577, 1, 64}, Shape{1089, 1, 16}}) {
      if (shape.head_dim < TypeParam::kLeastHeadDim) continue;
      const std::int64_t rows = std::min<std::int64_t>(shape.num_tokens, 43);
      for (const Seen& seen : patterns_of_seen_keys(rows, shape.num_tokens)) {
        TypeParam image(shape, Fill::normal);
        image.pack(0, shape.num_tokens);
        image.attend(0, rows, image.y, seen.bits<T>().data());
        image.expect(rows, seen.keys.data());
      }
    }
  });
}

TYPED_TEST_P(ExactSoftmaxAttention, UnseenKeysMayHoldAnything) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    const Seen seen(19, 600, [](std::int64_t row, std::int64_t key) { return key % 19 == row; });
    TypeParam image(Shape{600, 1, 32}, Fill::normal);
    for (std::int64_t key = 0; key < 600; key += 19) image.k.at(key, 3) = T(kNaN);
    image.pack(0, 600);
    image.attend(0, 19, image.y, seen.bits<T>().data());
    for (std::int64_t row = 0; row < 19; ++row)
      for (std::int64_t c = 0; c < 32; ++c) ASSERT_EQ(image.y.is_nan(row, c), row == 0) << row;
  });
}

TYPED_TEST_P(ExactSoftmaxAttention, PartsOfDisjointKeysAreOneSoftmax) {
  using T = typename TypeParam::Value;
  for_sets_of<TypeParam>([] {
    for (const Shape& shape :
         {Shape{40, 2, 64}, Shape{197, 2, 32}, Shape{70, 3, 5}, Shape{1089, 1, 64}}) {
      if (shape.head_dim < TypeParam::kLeastHeadDim) continue;
      constexpr std::int64_t kParts = 3;
      const std::int64_t rows = std::min<std::int64_t>(shape.num_tokens, 25);
      TypeParam image(shape, Fill::normal);
      image.pack(0, shape.num_tokens);
      const std::size_t size = softmax_attention::part_size(rows, shape.num_heads, shape.head_dim);
      std::vector<float> parts;
      for (std::int64_t i = 0; i < kParts; ++i) {
        // Rows of twelve in a row, and so whole strips of vectors, see nothing in two of the parts.
        const Seen seen(rows, shape.num_tokens, [i](std::int64_t row, std::int64_t key) {
          return (row < 12 ? 1 : (key * key + row) % kParts) == i;
        });
        Guarded<float> part(size);
        image.attend(0, rows, image.y, seen.bits<T>().data(), part.data());
        EXPECT_TRUE(part.intact());
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(image.y.is_nan(0, 0)) << "y is written, too";
      softmax_attention::merge_parts(softmax_attention::MergeParams<T>{
          shape.num_heads, shape.head_dim, rows, parts.data(), static_cast<std::int64_t>(size),
          kParts, image.y.data(), image.y.stride});
      image.expect(rows);
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(ExactSoftmaxAttention, EqualsTheTwinForEveryNumberOfRowsInTheLastStrip,
                            NanReachesWhatItBelongsTo, InfiniteScoresAsTheQuotientSays,
                            QueriesSeeTheirKeysAndNoOthers, UnseenKeysMayHoldAnything,
                            PartsOfDisjointKeysAreOneSoftmax);

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
