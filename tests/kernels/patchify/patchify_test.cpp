#include "kernels/patchify/patchify.h"

#include "tests/kernels/kernel_case.h"
#include "tests/kernels/patchify/patchify_reference.h"

#include <gtest/gtest.h>

#include <bit>

namespace hydrascope::kernels::test {
namespace patchify_test {

using patchify::TensorParams;

/// Images a little larger than their grid of patches, so that what must not be read lies beside it.
struct Case {
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t right;   ///< pixels behind the last whole patch of a row
  std::int64_t bottom;  ///< rows below the last whole patch
};
constexpr Case kCases[] = {{1, 1, 1, 0, 0},  {3, 2, 2, 1, 1},   {2, 31, 4, 3, 0}, {2, 3, 5, 0, 2},
                           {4, 8, 14, 5, 3}, {6, 33, 16, 0, 0}, {3, 2, 17, 1, 0}, {2, 2, 32, 0, 1}};

template <class T>
class PatchifyKernel : public ::testing::Test {};
TYPED_TEST_SUITE(PatchifyKernel, CpuTypes);

/// Parts of the grid that begin and end anywhere, and everything around their rows.
template <class T>
void compare(const Case& c, std::int64_t channels, const std::vector<float>& tensor,
             std::int64_t height, std::int64_t width) {
  const std::int64_t row_size = channels * c.patch_size * c.patch_size;
  const std::int64_t all = c.grid_rows * c.grid_columns;
  const std::int64_t y_stride = row_size + 3;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, all},
                                     {all / 3, all / 2},
                                     {all - 1, 1},
                                     {all, 0}}) {
    Guarded<T> y(static_cast<std::size_t>(count * y_stride));
    const TensorParams<T> params{tensor.data(), channels, height, width,    c.grid_columns,
                                 c.patch_size,  first,    count,  y.data(), y_stride};
    patchify::from_tensor(params);
    const std::vector<double> values = patchify::from_tensor_reference(params);
    std::size_t i = 0;
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t k = 0; k < y_stride; ++k) {
        const auto found = static_cast<float>(y[static_cast<std::size_t>(r * y_stride + k)]);
        if (k >= row_size) {
          ASSERT_TRUE(std::isnan(found));
          continue;
        }
        // A copy: no tolerance but the rounding of the storage type.
        const float value = static_cast<float>(T(static_cast<float>(values[i++])));
        ASSERT_TRUE(found == value || (std::isnan(found) && std::isnan(value)))
            << "patch " << first + r << ", element " << k << ": found " << found << ", expected "
            << value << ", patch size " << c.patch_size;
      }
    }
    ASSERT_EQ(i, values.size());
    EXPECT_TRUE(y.intact());
  }
}

TYPED_TEST(PatchifyKernel, TensorsAreRoundedOnce) {
  for_each_instruction_set([] {
    for (const Case& c : kCases) {
      for (const std::int64_t channels : {1, 3, 4}) {
        const std::int64_t width = c.grid_columns * c.patch_size + c.right;
        const std::int64_t height = c.grid_rows * c.patch_size + c.bottom;
        std::vector<float> tensor(static_cast<std::size_t>(channels * height * width));
        fill(tensor, kAllFills[static_cast<std::size_t>(c.patch_size + channels) % 6], 1);
        tensor[tensor.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        // Halfway between two numbers of bfloat16: the even one.
        tensor.front() = std::bit_cast<float>(0x3f808000U);
        compare<TypeParam>(c, channels, tensor, height, width);
      }
    }
  });
}

}  // namespace patchify_test
}  // namespace hydrascope::kernels::test
