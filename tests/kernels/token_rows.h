// Batches of rows for the tests of CUDA kernels, with NaN between and around them.
#pragma once

#include "kernels/device/rows.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/twin.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {

/// The gaps beside rows, in elements: `packed` leaves them where packs of 16 bytes can be read.
struct Layout {
  std::int64_t row_gap;    ///< behind every row
  std::int64_t image_gap;  ///< behind every image

  static const Layout packed;
};
inline constexpr Layout Layout::packed{16, 8};

/// On the host, where `at` reads and writes, and on the device, where kernels do.
template <class T>
class TokenRows {
 public:
  /// NaN everywhere, for a kernel to write.
  TokenRows(std::int64_t images, std::int64_t tokens, std::int64_t dim, Layout layout)
      : images_(images),
        tokens_(tokens),
        dim_(dim),
        stride_(dim + layout.row_gap),
        image_stride_(tokens * stride_ + layout.image_gap),
        host_(static_cast<std::size_t>(images * image_stride_), nan()),
        device_(host_) {}
  /// NaN but in the rows, which are `values` one after the other.
  TokenRows(std::int64_t images, std::int64_t tokens, std::int64_t dim, Layout layout,
            const std::vector<T>& values)
      : TokenRows(images, tokens, dim, layout) {
    std::size_t i = 0;
    for_each([&](T& value) { value = values[i++]; });
    upload();
  }
  TokenRows(std::int64_t images, std::int64_t tokens, std::int64_t dim, Layout layout, Fill how,
            unsigned seed)
      : TokenRows(images, tokens, dim, layout, [&] {
          std::vector<T> values(static_cast<std::size_t>(images * tokens * dim));
          fill(values, how, seed);
          return values;
        }()) {}

  static T nan() { return T(std::numeric_limits<float>::quiet_NaN()); }
  T& at(std::int64_t b, std::int64_t t, std::int64_t f) {
    return host_[static_cast<std::size_t>(b * image_stride_ + t * stride_ + f)];
  }
  /// function(value) for all values of all rows, in their order.
  template <class Function>
  void for_each(const Function& function) {
    for (std::int64_t b = 0; b < images_; ++b)
      for (std::int64_t t = 0; t < tokens_; ++t)
        for (std::int64_t f = 0; f < dim_; ++f) function(at(b, t, f));
  }
  /// Those of `images` images, one after the other.
  std::vector<T> values(std::int64_t first_image, std::int64_t images) {
    std::vector<T> all;
    for (std::int64_t b = first_image; b < first_image + images; ++b)
      for (std::int64_t t = 0; t < tokens_; ++t)
        for (std::int64_t f = 0; f < dim_; ++f) all.push_back(at(b, t, f));
    return all;
  }
  std::vector<T> values() { return values(0, images_); }

  /// Makes image 0 what image b of `from` is.
  void take(TokenRows& from, std::int64_t b) {
    for (std::int64_t t = 0; t < tokens_; ++t)
      for (std::int64_t f = 0; f < dim_; ++f) at(0, t, f) = from.at(b, t, f);
    upload();
  }

  /// After changes by `at`.
  void upload() { device_ = DeviceArray<T>(host_); }
  /// Fails where a kernel has written beside the rows.
  void download(const std::string& what = "rows") {
    host_ = device_.download();
    EXPECT_TRUE(device_.intact()) << what;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(host_.size()); ++i) {
      const std::int64_t in_image = i % image_stride_;
      if (in_image % stride_ < dim_ && in_image < tokens_ * stride_) continue;
      ASSERT_TRUE(std::isnan(static_cast<float>(host_[static_cast<std::size_t>(i)])))
          << what << ": written beside the rows, at " << i;
    }
  }

  T* data() { return device_.data(); }
  const T* data() const { return device_.data(); }
  [[nodiscard]] device::Rows<const T> read() const { return {data(), stride_, image_stride_}; }
  device::Rows<T> write() { return {data(), stride_, image_stride_}; }
  const T* host_of(std::int64_t image) const { return host_.data() + image * image_stride_; }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] std::int64_t image_stride() const { return image_stride_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t dim() const { return dim_; }
  [[nodiscard]] const std::vector<T>& host() const { return host_; }

  /// The output of a kernel for image b, downloaded: within a rounding to T (16-bit types) and
  /// `relative` of the size of the sums behind each value, infinite ones equal.
  void expect(std::int64_t b, const twin::Sums& expected, double relative, const std::string& what,
              double absolute = 6e-8) {
    constexpr double kRounding = sizeof(T) == 4 ? 0.0 : rounding<T>();
    ASSERT_EQ(expected.values.size(), static_cast<std::size_t>(tokens_ * dim_)) << what;
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
