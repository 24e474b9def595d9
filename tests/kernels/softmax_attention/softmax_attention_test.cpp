#include "kernels/softmax_attention/softmax_attention.h"

#include "kernels/softmax_attention/few_queries.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/softmax_attention/softmax_attention_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

using softmax_attention::AttendParams;
using softmax_attention::PackParams;
using softmax_attention::Shape;

template <class T>
class SoftmaxAttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxAttentionKernel, CpuTypes);

constexpr std::int64_t kGap = 3;  // NaN between the rows of inputs and outputs
const float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Queries (N, H d) scaled by 1/sqrt(d), keys and values of one image, and the kernel's memory.
template <class T>
struct Image {
  Shape shape;
  std::int64_t width;
  StridedRows<T> q, k, v;
  Guarded<T> keys, values;
  StridedRows<T> y;

  Image(const Shape& of, Fill how)
      : shape(of),
        width(of.num_heads * of.head_dim),
        q(of.num_tokens, width, kGap, how, 1),
        k(of.num_tokens, width, kGap, how, 2),
        v(of.num_tokens, width, kGap, how, 3),
        keys(softmax_attention::keys_size<T>(of)),
        values(softmax_attention::values_size<T>(of)),
        y(of.num_tokens, width, kGap) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(of.head_dim));
    for (std::int64_t row = 0; row < of.num_tokens; ++row)
      for (std::int64_t c = 0; c < width; ++c)
        q.at(row, c) = T(static_cast<float>(q.at(row, c)) * scale);
  }

  void pack(std::int64_t first, std::int64_t rows) {
    softmax_attention::pack(PackParams<T>{shape, k.row(first), v.row(first), k.stride, first, rows,
                                          keys.data(), values.data()});
  }
  void attend(std::int64_t first, std::int64_t rows, StridedRows<T>& to,
              const std::uint32_t* sees = nullptr, float* part = nullptr) {
    AlignedBuffer<std::byte> scratch(softmax_attention::scratch_bytes<T>(shape) + 64);
    std::memset(scratch.data(), 0xff, scratch.size());  // NaN
    softmax_attention::attend(AttendParams<T>{shape, q.row(first), q.stride, rows, keys.data(),
                                              values.data(), to.row(first), to.stride,
                                              scratch.data(), sees, part});
    for (std::size_t i = scratch.size() - 64; i < scratch.size(); ++i)
      ASSERT_EQ(scratch[i], std::byte{0xff}) << "scratch is larger than scratch_bytes";
  }
  void run(std::int64_t rows) {
    pack(0, shape.num_tokens);
    attend(0, rows, y);
  }
  [[nodiscard]] std::vector<double> reference(std::int64_t rows,
                                              const std::uint8_t* sees = nullptr) const {
    return softmax_attention::softmax_attention_reference(
        shape, q.data(), q.stride, rows, k.data(), v.data(), k.stride, {nullptr, nullptr, 0, sees});
  }
};

/// Which keys each query sees, as the twin and as the kernel reads it.
struct Seen {
  std::int64_t rows;
  std::int64_t num_tokens;
  std::vector<std::uint8_t> keys;

  template <class Sees>
  Seen(std::int64_t rows_, std::int64_t num_tokens_, Sees sees)
      : rows(rows_), num_tokens(num_tokens_) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t key = 0; key < num_tokens; ++key) keys.push_back(sees(row, key) ? 1 : 0);
  }
  template <class T>
  [[nodiscard]] std::vector<std::uint32_t> bits() const {
    const std::int64_t words = softmax_attention::sees_words(num_tokens);
    std::vector<std::uint32_t> all(static_cast<std::size_t>(rows * words));
    for (std::int64_t i = 0; i < rows * num_tokens; ++i) {
      if (keys[static_cast<std::size_t>(i)] == 0) continue;
      const std::int64_t bit = softmax_attention::sees_bit<T>(i % num_tokens);
      all[static_cast<std::size_t>(i / num_tokens * words + bit / 32)] |= 1U << (bit % 32);
    }
    return all;
  }
};

/// An output is a mean of values. It errs, in units of the largest value, by one rounding of
/// itself, by that of the weights (bfloat16; less than the former, as they err independently), and
/// by twice the error of a score: sqrt(d) roundings of float32 to a sum of magnitudes.
template <class T>
double tolerance(const Image<T>& image, std::int64_t rows) {
  const std::int64_t d = image.shape.head_dim;
  double magnitude = 0;
  double largest = 0;
  for (std::int64_t j = 0; j < image.shape.num_tokens; ++j)
    for (std::int64_t c = 0; c < image.width; c += d) {
      for (std::int64_t i = 0; i < d; ++i)
        largest = std::max(largest, std::abs(image.v.of(j, c + i)));
      for (std::int64_t row = 0; row < std::min<std::int64_t>(rows, 4); ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < d; ++i)
          sum += std::abs(image.q.of(row, c + i) * image.k.of(j, c + i));
        magnitude = std::max(magnitude, sum);
      }
    }
  const double score_error = std::sqrt(static_cast<double>(d)) * 6e-8 * magnitude;
  return largest * (rounding<T>() + 2 * score_error);
}

template <class T>
void compare(Image<T>& image, std::int64_t rows) {
  image.run(rows);
  expect_rows(image.y, image.reference(rows), 0, tolerance(image, rows),
              "N " + std::to_string(image.shape.num_tokens) + ", d " +
                  std::to_string(image.shape.head_dim));
  EXPECT_TRUE(image.keys.intact());
  EXPECT_TRUE(image.values.intact());
}

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
      for (std::int64_t j = 0; j < 1500; ++j)  // scores from -30 to 30, and back
        for (std::int64_t c = 0; c < 64; ++c)
          image.k.at(j, c) =
              TypeParam(0.04F * static_cast<float>(rising ? j - 750 : 750 - j) / 8.0F);
      for (std::int64_t c = 0; c < 64; ++c) {
        image.q.at(0, c) = TypeParam(0.125F);
        image.q.at(1, c) = TypeParam(-0.125F);
        image.q.at(2, c) = TypeParam(1.0F);  // nearly one-hot
      }
      compare(image, 9);
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, PackingTilesInAnyOrderFillsTheSamePanels) {
  for_each_instruction_set([] {
    for (const Shape& shape : {Shape{197, 2, 64}, Shape{198, 1, 80}, Shape{66, 3, 5}}) {
      Image<TypeParam> once(shape, Fill::normal);
      Image<TypeParam> tiles(shape, Fill::normal);
      once.pack(0, shape.num_tokens);
      tiles.pack(62, shape.num_tokens - 62);
      tiles.pack(0, 0);
      tiles.pack(37, 25);  // one after the other, `first` may be odd
      tiles.pack(0, 37);
      EXPECT_EQ(0, std::memcmp(once.keys.data(), tiles.keys.data(),
                               once.keys.size() * sizeof(TypeParam)));
      EXPECT_EQ(0, std::memcmp(once.values.data(), tiles.values.data(),
                               once.values.size() * sizeof(TypeParam)));
    }
  });
}

TYPED_TEST(SoftmaxAttentionKernel, ARowDependsNeitherOnItsTileNorOnWhereItIsWritten) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {197, 601}) {
      Image<TypeParam> image(Shape{num_tokens, 2, 48}, Fill::normal);
      image.run(num_tokens);
      image.attend(150, 47, image.q);
      image.attend(0, 0, image.q);
      image.attend(0, 150, image.q);
      for (std::int64_t row = 0; row < 197; ++row)
        ASSERT_EQ(0, std::memcmp(&image.q.at(row, 0), &image.y.at(row, 0),
                                 static_cast<std::size_t>(image.width) * sizeof(TypeParam)))
            << "row " << row;
    }
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

/// A few keys, many, some in every group, the last ones alone; each query sees one at least.
std::vector<Seen> patterns_of_seen_keys(std::int64_t rows, std::int64_t n) {
  return {{rows, n, [](std::int64_t row, std::int64_t key) { return key == 0 || key < row; }},
          {rows, n,
           [n](std::int64_t row, std::int64_t key) {
             const std::int64_t first = row * 37 % n;
             return key >= first && key < first + 50;
           }},
          {rows, n,
           [n](std::int64_t row, std::int64_t key) {
             return (row * 31 + key * 17) % 5 == 0 || key == row % n;
           }},
          {rows, n, [n](std::int64_t row, std::int64_t key) { return key + row % 2 + 1 >= n; }}};
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
