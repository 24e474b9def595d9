// Comparing tensors so that NaN fails and a failure says where and by how much.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::testing {

/// |actual - expected| <= tolerance for every element; NaN on either side fails.
inline ::testing::AssertionResult all_near(const at::Tensor& actual, const at::Tensor& expected,
                                           double tolerance) {
  if (actual.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure()
           << "shapes " << actual.sizes() << " and " << expected.sizes();
  }
  const at::Tensor a = actual.to(at::kDouble).flatten();
  const at::Tensor b = expected.to(at::kDouble).flatten();
  const at::Tensor error = (a - b).abs();
  const at::Tensor good = error.le(tolerance);  // false for NaN
  if (good.all().item<bool>()) return ::testing::AssertionSuccess();
  const auto worst = at::where(good, at::zeros_like(error), at::nan_to_num(error, 1e300))
                         .argmax()
                         .item<std::int64_t>();
  return ::testing::AssertionFailure()
         << "element " << worst << " is " << a[worst].item<double>() << ", expected "
         << b[worst].item<double>() << ", tolerance " << tolerance << "; "
         << 100 * good.to(at::kDouble).mean().item<double>() << " % pass";
}

}  // namespace hydrascope::testing
