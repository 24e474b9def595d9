#include "kernels/resize/resize.h"

#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace hydrascope::kernels::test {
namespace resize_test {

using resize::Taps;

/// Weights of one output element over all of the axis, by the definition.
std::vector<double> weights_of(std::int64_t from, std::int64_t to, std::int64_t i) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(1.0, scale);
  std::vector<double> weights(static_cast<std::size_t>(from));
  for (std::int64_t j = 0; j < from; ++j) {
    const double x =
        std::abs((static_cast<double>(j) + 0.5 - scale * (static_cast<double>(i) + 0.5)) / stretch);
    const double a = -0.5;
    double& weight = weights[static_cast<std::size_t>(j)];
    if (x < 1)
      weight = (a + 2) * x * x * x - (a + 3) * x * x + 1;
    else if (x < 2)
      weight = a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

TEST(ResizeKernel, TapsAreTheWeightsThatAreNotZero) {
  for (const auto& [from, to] : std::array<std::array<std::int64_t, 2>, 8>{
           {{1, 1}, {7, 7}, {5, 1}, {3, 8}, {33, 10}, {97, 31}, {1088, 224}, {224, 225}}}) {
    SCOPED_TRACE(std::to_string(from) + " -> " + std::to_string(to));
    const Taps taps = resize::bicubic_taps(from, to);
    ASSERT_EQ(taps.from, from);
    ASSERT_EQ(taps.to(), to);
    ASSERT_EQ(taps.most % 16, 0);
    for (std::int64_t i = 0; i < to; ++i) {
      std::vector<double> expected = weights_of(from, to, i);
      const auto at = static_cast<std::size_t>(i);
      ASSERT_LE(taps.first[at] + taps.count[at], from);
      for (std::int64_t t = 0; t < taps.most; ++t) {
        const float found = taps.weights[static_cast<std::size_t>(i * taps.most + t)];
        if (t >= taps.count[at]) {
          ASSERT_EQ(found, 0) << "filling of " << i;
          continue;
        }
        double& value = expected[static_cast<std::size_t>(taps.first[at] + t)];
        ASSERT_NEAR(static_cast<double>(found), value, 1e-7) << i << ", " << t;
        value = 0;
      }
      for (const double missed : expected) ASSERT_NEAR(missed, 0, 1e-12);
    }
  }
}

TEST(ResizeKernel, EqualsTheDefinition) {
  struct Case {
    std::int64_t rows, columns, to_rows, to_columns;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1},   {9, 5, 3, 2},     {32, 48, 32, 48}, {40, 300, 13, 61},
                             {3, 20, 5, 40}, {75, 259, 9, 31}, {70, 17, 8, 30},  {64, 128, 1, 1}};
  for_each_instruction_set([&] {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::to_string(c.rows) + "x" + std::to_string(c.columns));
      Guarded<float> x(static_cast<std::size_t>(c.rows * c.columns));
      std::mt19937 random(3);
      std::normal_distribution<float> normal;
      for (float& value : x) value = normal(random);
      const Taps rows = resize::bicubic_taps(c.rows, c.to_rows);
      const Taps columns = resize::bicubic_taps(c.columns, c.to_columns);
      Guarded<float> y(static_cast<std::size_t>(c.to_rows * c.to_columns));
      Guarded<float> scratch(static_cast<std::size_t>(resize::scratch_floats(columns)));
      // In two parts, the second from the middle.
      const std::int64_t half = c.to_rows / 2;
      for (const auto& [first, count] :
           std::array<std::array<std::int64_t, 2>, 2>{{{half, c.to_rows - half}, {0, half}}})
        resize::resize({x.data(), &rows, &columns, first, count, y.data(), scratch.data()});
      for (std::int64_t i = 0; i < c.to_rows; ++i) {
        const std::vector<double> of_rows = weights_of(c.rows, c.to_rows, i);
        for (std::int64_t j = 0; j < c.to_columns; ++j) {
          const std::vector<double> of_columns = weights_of(c.columns, c.to_columns, j);
          double expected = 0;
          for (std::size_t r = 0; r < of_rows.size(); ++r)
            for (std::size_t k = 0; k < of_columns.size(); ++k)
              expected +=
                  of_rows[r] * of_columns[k] * static_cast<double>(x[r * of_columns.size() + k]);
          const auto found = static_cast<double>(y[static_cast<std::size_t>(i * c.to_columns + j)]);
          ASSERT_LE(std::abs(found - expected), 2e-6) << i << ", " << j;
        }
      }
      EXPECT_TRUE(y.intact());
      EXPECT_TRUE(scratch.intact());
    }
  });
}

}  // namespace resize_test
}  // namespace hydrascope::kernels::test
