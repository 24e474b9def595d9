#include "kernels/softmax_attention/few_queries.h"

#include "tests/kernels/softmax_attention/softmax_attention_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace few_queries_test {

using softmax_attention::kPartKeys;
using softmax_attention::MergeParams;
using softmax_attention::PartParams;
using softmax_attention::Shape;
using softmax_attention_test::kGap;
using softmax_attention_test::kNaN;

template <class T>
class FewQueriesKernel : public ::testing::Test {};
TYPED_TEST_SUITE(FewQueriesKernel, CpuTypes);

/// Queries scaled by 1/sqrt(d), and the keys and values of N tokens, of which those from `plain` on
/// have a bias.
template <class T>
struct Asked {
  Shape shape;
  std::int64_t plain;
  StridedRows<T> q, k, v, y;
  std::vector<float> factor, bias;

  Asked(const Shape& of, std::int64_t rows, std::int64_t plain_, Fill how = Fill::normal)
      : shape(of),
        plain(plain_),
        q(rows, of.num_heads * of.head_dim, kGap, how, 1),
        k(of.num_tokens, q.dim, kGap, how, 2),
        v(of.num_tokens, q.dim, kGap, how, 3),
        y(rows, q.dim, kGap) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(of.head_dim));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < q.dim; ++i)
        q.at(r, i) = T(scale * static_cast<float>(q.at(r, i)));
  }
  void weigh() {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      factor.push_back(1.5F - static_cast<float>(head));  // negative, too
      bias.push_back(static_cast<float>(head) - 2.0F);
    }
  }
  void run(std::int64_t keys_of_a_part) {
    std::vector<float> parts;
    const std::size_t size = softmax_attention::part_size(q.rows, shape.num_heads, shape.head_dim);
    std::int64_t count = 0;
    const auto attend = [&](std::int64_t first, std::int64_t end, bool biased) {
      for (; first < end; first += keys_of_a_part, ++count) {
        Guarded<float> part(size);
        softmax_attention::attend_part(
            PartParams<T>{{std::min(keys_of_a_part, end - first), shape.num_heads, shape.head_dim},
                          q.data(),
                          q.stride,
                          q.rows,
                          k.data() + first * k.stride,
                          v.data() + first * v.stride,
                          k.stride,
                          factor.empty() ? nullptr : factor.data(),
                          biased && !bias.empty() ? bias.data() : nullptr,
                          part.data()});
        EXPECT_TRUE(part.intact());
        parts.insert(parts.end(), part.begin(), part.end());
      }
    };
    attend(0, plain, false);
    attend(plain, shape.num_tokens, true);
    // The last row alone, too.
    const std::int64_t last = q.rows - 1;
    const std::int64_t before = last * (static_cast<std::int64_t>(size) / q.rows);
    softmax_attention::merge_parts(MergeParams<T>{shape.num_heads, shape.head_dim, last,
                                                  parts.data(), static_cast<std::int64_t>(size),
                                                  count, y.data(), y.stride});
    softmax_attention::merge_parts(MergeParams<T>{
        shape.num_heads, shape.head_dim, 1, parts.data() + before, static_cast<std::int64_t>(size),
        count, y.data() + last * y.stride, y.stride});
  }
  void compare(std::int64_t keys_of_a_part = kPartKeys) {
    run(keys_of_a_part);
    softmax_attention::Weighing weighing;
    if (!factor.empty()) weighing = {factor.data(), bias.data(), plain};
    const std::vector<double> expected = softmax_attention::softmax_attention_reference(
        shape, q.data(), q.stride, q.rows, k.data(), v.data(), k.stride, weighing);
    expect_rows(y, expected, 0, softmax_attention_test::tolerance(shape, q, k, v, q.rows, weighing),
                "N " + std::to_string(shape.num_tokens) + ", d " + std::to_string(shape.head_dim));
  }
};

TYPED_TEST(FewQueriesKernel, EqualsTheTwinOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {1, 2, 3, 15, 16, 17, 197, 256, 257, 601})
      Asked<TypeParam>({num_tokens, 2, 64}, 1, num_tokens).compare();
    for (const std::int64_t head_dim : {1, 7, 16, 33, 48, 80, 96, 128})
      Asked<TypeParam>({67, 3, head_dim}, 3, 50).compare();
  });
}

TYPED_TEST(FewQueriesKernel, EqualsTheTwinWithFactorsAndBiases) {
  for_each_instruction_set([] {
    for (const std::int64_t plain : {0, 1, 300, 331}) {
      Asked<TypeParam> asked({331, 3, 32}, 2, plain);
      asked.weigh();
      asked.compare();
    }
  });
}

TYPED_TEST(FewQueriesKernel, EqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills) {
    SCOPED_TRACE(static_cast<int>(how));
    for (const bool weighed : {false, true}) {
      Asked<TypeParam> asked({301, 2, 64}, 5, 290, how);
      if (weighed) asked.weigh();
      asked.compare();
    }
  }
}

TYPED_TEST(FewQueriesKernel, EveryCutIntoPartsGivesTheSame) {
  for (const std::int64_t keys_of_a_part : {1, 5, 64, 255, 256})
    Asked<TypeParam>({523, 2, 24}, 2, 500).compare(keys_of_a_part);
}

TYPED_TEST(FewQueriesKernel, NanAndInfinityReachWhatTheyBelongTo) {
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_instruction_set([&] {
    for (const std::int64_t key : {0, 255, 299}) {
      Asked<TypeParam> asked({300, 2, 32}, 3, 300);
      const auto expect_nan = [&](auto is_nan) {
        asked.run(kPartKeys);
        for (std::int64_t row = 0; row < 3; ++row)
          for (std::int64_t c = 0; c < 64; ++c)
            ASSERT_EQ(std::isnan(asked.y.of(row, c)), is_nan(row, c)) << row << ", " << c;
      };
      asked.q.at(1, 2) = TypeParam(kNaN);         // a query of head 0
      asked.v.at(key, 32 + 7) = TypeParam(kNaN);  // a column of head 1
      expect_nan(
          [](std::int64_t row, std::int64_t c) { return (row == 1 && c < 32) || c == 32 + 7; });
      asked.k.at(key, 1) = TypeParam(kNaN);  // a key of head 0: everybody's sum
      expect_nan([](std::int64_t, std::int64_t c) { return c < 32 || c == 32 + 7; });
    }
    Asked<TypeParam> asked({600, 1, 16}, 2, 600, Fill::ones);
    for (std::int64_t j = 0; j < 590; ++j) {  // whole parts of -inf
      asked.k.at(j, 0) = TypeParam(-infinity);
      asked.v.at(j, 4) = TypeParam(9.0F);
    }
    for (std::int64_t c = 0; c < 16; ++c) asked.q.at(1, c) = TypeParam(-0.25F);
    asked.run(kPartKeys);
    EXPECT_NEAR(asked.y.of(0, 4), 1.0, 1e-5);
    EXPECT_TRUE(std::isnan(asked.y.of(1, 4)));  // +inf - inf
    for (std::int64_t j = 590; j < 600; ++j) asked.k.at(j, 0) = TypeParam(-infinity);
    asked.run(kPartKeys);
    EXPECT_TRUE(std::isnan(asked.y.of(0, 4)));  // no key counts: 0 / 0
  });
}

}  // namespace few_queries_test
}  // namespace hydrascope::kernels::test
