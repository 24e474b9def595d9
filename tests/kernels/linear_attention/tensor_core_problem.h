// Queries, keys and values on the device, what linear attention makes of them there and what its
// float64 twins say: what tensor_core_cuda_test.cpp compares.
#pragma once

#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/tensor_core_geometry.h"
#include "kernels/linear_attention/tensor_core_launch.cuh"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace hydrascope::kernels::test {

namespace la = linear_attention;
namespace cuda = linear_attention::cuda;
namespace tensor_core = linear_attention::cuda::tensor_core;
using la::Feature;
using la::Normaliser;

inline constexpr Feature kFeatures[] = {
    Feature::elu_plus_one, Feature::relu,         Feature::unit,         Feature::exp,
    Feature::exp_pair,     Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred};
/// One map of each kind of kernel.
inline constexpr Feature kOfEachKind[] = {Feature::exp_pair, Feature::softmax_pair, Feature::exp,
                                          Feature::elu_plus_one};

inline la::Shape shape_of(Feature feature, std::int64_t heads) {
  const Normaliser rule = feature == Feature::unit ? Normaliser::none : Normaliser::add_eps;
  return {heads, 64, 64, feature, rule, 1e-6F, 1e-6F};
}

inline std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// Rows of a batch in 16-byte packs, with NaN between them and behind every image.
template <class T>
struct Tensor {
  std::int64_t images, tokens, dim, stride, image_stride;
  std::vector<T> values;

  Tensor(std::int64_t images_, std::int64_t tokens_, std::int64_t dim_)
      : images(images_),
        tokens(tokens_),
        dim(dim_),
        stride(dim_ + 8),
        image_stride(tokens_ * stride + 16),
        values(to_size(images_ * image_stride), T(std::numeric_limits<float>::quiet_NaN())) {}
  void set(Fill how, unsigned seed) {
    std::vector<T> inside(to_size(images * tokens * dim));
    fill(inside, how, seed);
    std::size_t next = 0;
    for (std::int64_t b = 0; b < images; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t i = 0; i < dim; ++i) at(b, t, i) = inside[next++];
  }
  T& at(std::int64_t b, std::int64_t t, std::int64_t i) {
    return values[to_size(b * image_stride + t * stride + i)];
  }
  [[nodiscard]] const T* image(std::int64_t b) const { return values.data() + b * image_stride; }
};

/// Memory that kernels reach, aligned as the headers ask.
template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t count) : array_(count + 256 / sizeof(T)), count_(count) {}
  T* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(array_.data());
    return array_.data() + (256 - address % 256) % 256 / sizeof(T);
  }
  void upload(const std::vector<T>& values) {
    if (!values.empty()) copy_memory(data(), values.data(), values.size() * sizeof(T));
  }
  std::vector<T> download() {
    std::vector<T> values(count_);
    if (count_ != 0) copy_memory(values.data(), data(), count_ * sizeof(T));
    return values;
  }
  /// Whether nothing was written outside.
  bool intact() {
    if (!array_.intact()) return false;
    const std::vector<T> all = array_.download();
    const auto first = static_cast<std::size_t>(data() - array_.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &all[i], sizeof(T));
      if ((i < first || i >= first + count_) &&
          !std::all_of(bytes, bytes + sizeof(T), [](unsigned char byte) { return byte == 0xff; }))
        return false;
    }
    return true;
  }

 private:
  DeviceArray<T> array_;
  std::size_t count_;
};

template <class T>
struct OnDevice {
  Aligned<T> memory;
  std::int64_t stride, image_stride;
  explicit OnDevice(const Tensor<T>& from)
      : memory(from.values.size()), stride(from.stride), image_stride(from.image_stride) {
    memory.upload(from.values);
  }
  cuda::Rows<const T> read() { return {memory.data(), stride, image_stride}; }
  cuda::Rows<T> write() { return {memory.data(), stride, image_stride}; }
  /// The tensor again; fails where anything beside its rows was written.
  void download(Tensor<T>& to) {
    to.values = memory.download();
    EXPECT_TRUE(memory.intact());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(to.values.size()); ++i) {
      const std::int64_t in_image = i % to.image_stride;
      if (in_image % to.stride < to.dim && in_image < to.tokens * to.stride) continue;
      ASSERT_EQ(to.values[to_size(i)].bits, T(std::numeric_limits<float>::quiet_NaN()).bits)
          << "element " << i;
    }
  }
};

template <class T>
struct Problem {
  la::Shape shape;
  cuda::Extent extent;
  Tensor<T> q, k, v, grad_y;
  Tensor<T> y, grad_q, grad_k, grad_v;
  std::vector<float> state, denominator;
  std::vector<la::Mixed> expected_y;
  std::vector<la::Gradients> expected_gradients;
  bool ordinary;           ///< gradients are no differences of large terms
  bool subnormal = false;  ///< nor are they in float16

  Problem(const la::Shape& shape_, std::int64_t images, std::int64_t tokens,
          Fill how = Fill::normal, std::int64_t queries = -1)
      : shape(shape_),
        extent{images, tokens, queries < 0 ? tokens : queries, 0, 1, 1},
        q(images, extent.queries, shape.num_heads * 64),
        k(images, tokens, shape.num_heads * 64),
        v(k),
        grad_y(q),
        y(q),
        grad_q(q),
        grad_k(k),
        grad_v(k),
        ordinary(how == Fill::normal && tokens > 17) {
    q.set(how, 1);
    k.set(how, 2);
    v.set(how, 3);
    grad_y.set(how, 4);
  }

  void run(bool backward, bool want_denominator = true,
           std::int64_t multiprocessors = device::kMultiprocessors) {
    OnDevice<T> on_q(q), on_k(k), on_v(v), on_y(y);
    const std::size_t rows = to_size(extent.images * shape.num_heads);
    Aligned<float> on_state(rows * to_size(shape.features()) * 66);
    Aligned<float> on_denominator(rows * to_size(extent.queries));
    Aligned<unsigned char> workspace(cuda::tensor_core_workspace_bytes<T>(shape, extent));
    const cuda::ForwardParams<T> params{
        shape,           extent,
        on_q.read(),     on_k.read(),
        on_v.read(),     on_y.write(),
        on_state.data(), want_denominator ? on_denominator.data() : nullptr,
        workspace.data()};
    ASSERT_TRUE(cuda::tensor_core_serves(params));
    cuda::tensor_core_forward(params, nullptr, multiprocessors);
    on_y.download(y);
    state = on_state.download();
    denominator = on_denominator.download();
    EXPECT_TRUE(on_state.intact() && on_denominator.intact() && workspace.intact());
    if (!backward) return;
    OnDevice<T> on_grad_y(grad_y), on_grad_q(grad_q), on_grad_k(grad_k), on_grad_v(grad_v);
    // Nothing of the forward pass but its results.
    Aligned<unsigned char> fresh(cuda::tensor_core_backward_workspace_bytes<T>(shape, extent));
    const cuda::BackwardParams<T> reversed{shape,
                                           extent,
                                           on_q.read(),
                                           on_k.read(),
                                           on_v.read(),
                                           on_y.read(),
                                           on_state.data(),
                                           on_denominator.data(),
                                           on_grad_y.read(),
                                           on_grad_q.write(),
                                           on_grad_k.write(),
                                           on_grad_v.write(),
                                           fresh.data()};
    ASSERT_TRUE(cuda::tensor_core_serves(reversed));
    cuda::tensor_core_backward(reversed, nullptr, multiprocessors);
    on_grad_q.download(grad_q);
    on_grad_k.download(grad_k);
    on_grad_v.download(grad_v);
    EXPECT_TRUE(on_state.intact() && on_denominator.intact() && fresh.intact());
  }

  [[nodiscard]] la::Tokens<T> tokens(std::int64_t b) const {
    return {shape,
            q.image(b),
            q.stride,
            extent.queries,
            k.image(b),
            k.stride,
            v.image(b),
            v.stride,
            extent.tokens,
            extent.num_prefix,
            extent.prefix_weight,
            extent.patch_weight};
  }

  /// Finds what should come out of every `step`th query, and the gradients.
  void expect(bool backward, std::int64_t step = 1) {
    for (std::int64_t b = 0; b < extent.images; ++b) {
      for (std::int64_t i = 0; i < extent.queries; i += step)
        expected_y.push_back(la::linear_attention_reference(tokens(b), i));
      if (backward)
        expected_gradients.push_back(
            la::linear_attention_backward_reference(tokens(b), grad_y.image(b), grad_y.stride));
    }
  }

  /// Features of both sides, S and y are rounded once each: in all four half units, that seldom add
  /// up. Exponents are sums of three terms, each rounded to 2^-24 of itself, powers of two and
  /// logarithms of 2^-22. Gradients are made from y and have one more product.
  [[nodiscard]] static double relative(double largest_exponent, bool gradient) {
    return (gradient ? 4 : 2.5) * rounding<T>() + largest_exponent * 1e-6;
  }
  /// Features that float16 has as subnormal numbers are rounded to 2^-25, F of them.
  [[nodiscard]] static double absolute() { return std::is_same_v<T, Float16> ? 4e-6 : 1e-30; }

  void compare(Tensor<T>& found, std::int64_t b, std::int64_t t, const double* expected,
               const double* magnitude, double bound, double largest, const char* what) {
    for (std::int64_t i = 0; i < found.dim; ++i) {
      const auto value = static_cast<double>(static_cast<float>(found.at(b, t, i)));
      const double error = std::abs(value - expected[i]);
      // What float16 stores has a smallest unit, too.
      const double tolerance =
          bound * magnitude[i] + absolute() * largest + (std::is_same_v<T, Float16> ? 6e-8 : 1e-30);
      ASSERT_LE(error, tolerance) << what << " of image " << b << ", row " << t << ", column " << i
                                  << ": found " << value << ", expected " << expected[i]
                                  << ", magnitude " << magnitude[i];
    }
  }
  static double largest_of(const std::vector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
  }
  void check(std::int64_t step = 1) {
    std::size_t next = 0;
    for (std::int64_t b = 0; b < extent.images; ++b)
      for (std::int64_t i = 0; i < extent.queries; i += step) {
        const la::Mixed& mixed = expected_y[next++];
        compare(y, b, i, mixed.y.data(), mixed.magnitude.data(),
                relative(mixed.largest_exponent, false), largest_of(mixed.magnitude), "y");
        if (testing::Test::HasFatalFailure()) return;
      }
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(expected_gradients.size()); ++b) {
      const la::Gradients& g = expected_gradients[to_size(b)];
      const double bound = relative(g.largest_exponent, true);
      const auto all = [&](Tensor<T>& found, const std::vector<double>& expected,
                           const std::vector<double>& magnitude, const char* what) {
        double error = 0;
        double size = 0;
        for (std::int64_t t = 0; t < found.tokens; ++t) {
          compare(found, b, t, expected.data() + t * found.dim, magnitude.data() + t * found.dim,
                  bound, largest_of(magnitude), what);
          if (testing::Test::HasFatalFailure()) return;
          for (std::int64_t i = 0; i < found.dim; ++i) {
            const double x = expected[to_size(t * found.dim + i)];
            const double off = static_cast<double>(static_cast<float>(found.at(b, t, i))) - x;
            error += off * off;
            size += x * x;
          }
        }
        if (ordinary) {
          EXPECT_LE(std::sqrt(error / size), 2 * rounding<T>() + (subnormal ? 0.01 : 0)) << what;
        }
      };
      all(grad_q, g.q, g.q_magnitude, "dq");
      all(grad_k, g.k, g.k_magnitude, "dk");
      all(grad_v, g.v, g.v_magnitude, "dv");
    }
  }
};

}  // namespace hydrascope::kernels::test
