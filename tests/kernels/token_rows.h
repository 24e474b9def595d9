// Batches of rows for the tests of CUDA kernels, with NaN between and around them.
#pragma once

#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {

/// What lies behind a row: `packed` leaves rows where packs of 16 bytes can be read, `odd` does
/// not.
enum class Layout { packed, odd };

template <class T>
class TokenRows {
 public:
  /// NaN everywhere, for a kernel to write.
  TokenRows(std::int64_t images, std::int64_t tokens, std::int64_t dim, Layout layout)
      : images_(images),
        tokens_(tokens),
        dim_(dim),
        stride_(dim + (layout == Layout::packed ? 16 : 5)),
        image_stride_(tokens * stride_ + (layout == Layout::packed ? 8 : 3)),
        host_(static_cast<std::size_t>(images * image_stride_), nan()),
        device_(host_) {}
  /// NaN but in the rows.
  TokenRows(std::int64_t images, std::int64_t tokens, std::int64_t dim, Layout layout, Fill how,
            unsigned seed)
      : TokenRows(images, tokens, dim, layout) {
    std::vector<T> inside(static_cast<std::size_t>(images * tokens * dim));
    fill(inside, how, seed);
    std::size_t i = 0;
    for (std::int64_t b = 0; b < images; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t f = 0; f < dim; ++f) at(b, t, f) = inside[i++];
    upload();
  }

  static T nan() { return T(std::numeric_limits<float>::quiet_NaN()); }
  T& at(std::int64_t b, std::int64_t t, std::int64_t f) {
    return host_[static_cast<std::size_t>(b * image_stride_ + t * stride_ + f)];
  }
  /// After changes by `at`.
  void upload() { device_ = DeviceArray<T>(host_); }
  void download() { host_ = device_.download(); }

  T* data() { return device_.data(); }
  const T* data() const { return device_.data(); }
  [[nodiscard]] std::int64_t image_stride() const { return image_stride_; }
  const T* host_of(std::int64_t image) const { return host_.data() + image * image_stride_; }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] const std::vector<T>& host() const { return host_; }

  /// What a kernel has written to image b: within a rounding to T (16-bit types) and `relative` of
  /// the size of the sums behind each value (`values` and `magnitudes` of a float64 twin), infinite
  /// ones equal; nothing between the rows.
  template <class Expected>
  void expect(std::int64_t b, const Expected& expected, double relative, const std::string& what,
              double absolute = 6e-8) {
    constexpr double kRounding = sizeof(T) == 4 ? 0.0 : rounding<T>();
    ASSERT_EQ(expected.values.size(), static_cast<std::size_t>(tokens_ * dim_)) << what;
    ASSERT_TRUE(device_.intact()) << what;
    std::size_t i = 0;
    for (std::int64_t t = 0; t < tokens_; ++t) {
      for (std::int64_t f = 0; f < dim_; ++f, ++i) {
        const auto found = static_cast<double>(static_cast<float>(at(b, t, f)));
        if (found == expected.values[i]) continue;
        const double tolerance =
            kRounding * std::abs(expected.values[i]) + relative * expected.magnitudes[i] + absolute;
        ASSERT_LE(std::abs(found - expected.values[i]), tolerance)
            << what << " of image " << b << ", row " << t << ", column " << f << ": found " << found
            << ", expected " << expected.values[i];
      }
      for (std::int64_t f = dim_; f < stride_; ++f)
        ASSERT_TRUE(std::isnan(static_cast<float>(at(b, t, f)))) << what << " behind row " << t;
    }
  }

 private:
  std::int64_t images_;
  std::int64_t tokens_;
  std::int64_t dim_;
  std::int64_t stride_;
  std::int64_t image_stride_;
  std::vector<T> host_;
  DeviceArray<T> device_;
};

/// Whether all bits are the same.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace hydrascope::kernels::test
