// An image's queries, keys and values for the tests of softmax attention, and patterns of the keys
// that queries see.
#pragma once

#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/softmax_attention/softmax_attention_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

using softmax_attention::AttendParams;
using softmax_attention::PackParams;
using softmax_attention::Shape;

constexpr std::int64_t kGap = 3;  // NaN between the rows of inputs and outputs
inline const float kNaN = std::numeric_limits<float>::quiet_NaN();

/// An output is a mean of values. It errs, in units of the largest value, by one rounding of itself, by that
/// of the weights (bfloat16; less than the former, as they err independently), and by twice the error of a
/// score: sqrt(d) roundings of float32 to a sum of magnitudes, here those of `rows` queries.
template <class T>
double tolerance(const Shape& shape, const StridedRows<T>& q, const StridedRows<T>& k,
                 const StridedRows<T>& v, std::int64_t rows,
                 const softmax_attention::Weighing& weighing = {}) {
  const std::int64_t d = shape.head_dim;
  double magnitude = 0;
  double largest = 0;
  for (std::int64_t j = 0; j < shape.num_tokens; ++j)
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      for (std::int64_t i = head * d; i < (head + 1) * d; ++i)
        largest = std::max(largest, std::abs(v.of(j, i)));
      for (std::int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (std::int64_t i = head * d; i < (head + 1) * d; ++i)
          sum += std::abs(q.of(row, i) * k.of(j, i));
        if (weighing.factor != nullptr)
          sum = std::abs(static_cast<double>(weighing.factor[head])) * sum +
                std::abs(static_cast<double>(weighing.bias[head]));
        magnitude = std::max(magnitude, sum);
      }
    }
  const double score_error = std::sqrt(static_cast<double>(d)) * 6e-8 * magnitude;
  return largest * (rounding<T>() + 2 * score_error);
}

/// Queries (N, H d) scaled by 1/sqrt(d), keys and values of one image, and the kernel's memory.
template <class T>
struct Image {
  using Value = T;
  static constexpr bool kSlow = false;              ///< attends on an emulator
  static constexpr bool kBytes = false;             ///< by numbers of 8 bits
  static constexpr std::int64_t kLeastHeadDim = 1;  ///< that `attend_by` serves

  Shape shape;
  std::int64_t width;
  StridedRows<T> q, k, v;
  Guarded<T> keys, values;
  StridedRows<T> y;
  /// Who attends in place of softmax_attention::attend, and in how many bytes of working memory.
  std::function<void(const AttendParams<T>&)> attend_by{};
  std::size_t scratch_bytes = 0;

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
    AlignedBuffer<std::byte> scratch(
        (attend_by ? scratch_bytes : softmax_attention::scratch_bytes<T>(shape)) + 64);
    std::memset(scratch.data(), 0xff, scratch.size());  // NaN
    const AttendParams<T> params{shape,          q.row(first),  q.stride,      rows,
                                 keys.data(),    values.data(), to.row(first), to.stride,
                                 scratch.data(), sees,          part};
    if (attend_by)
      attend_by(params);
    else
      softmax_attention::attend(params);
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
  /// The first `rows` of y against the twin's.
  void expect(std::int64_t rows, const std::uint8_t* sees = nullptr) const {
    expect_rows(y, reference(rows, sees), 0,
                tolerance(shape, q, k, v, std::min<std::int64_t>(rows, 4)),
                "N " + std::to_string(shape.num_tokens) + ", d " + std::to_string(shape.head_dim));
    EXPECT_TRUE(keys.intact());
    EXPECT_TRUE(values.intact());
  }
  void compare(std::int64_t rows) {
    run(rows);
    expect(rows);
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

/// A few keys, many, some in every group, the last ones alone; each query sees one at least.
inline std::vector<Seen> patterns_of_seen_keys(std::int64_t rows, std::int64_t n) {
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

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
