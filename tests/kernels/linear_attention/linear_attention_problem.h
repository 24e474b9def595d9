// Queries, keys and values on the device, what linear attention in float32 arithmetic makes of them
// there and what its float64 twins say: what linear_attention_cuda_test.cpp compares.
#pragma once

#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/linear_attention_geometry.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test::linear_attention_cuda_test {

namespace la = linear_attention;
namespace cuda = linear_attention::cuda;
using la::Feature;
using la::Normaliser;

inline constexpr Feature kFeatures[] = {
    Feature::elu_plus_one, Feature::relu,         Feature::unit,         Feature::exp,
    Feature::exp_pair,     Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred};

/// Heads that no tensor core serves unless `width` and `head_dim` are 64.
inline la::Shape shape_of(Feature feature, std::int64_t heads, std::int64_t width,
                          std::int64_t head_dim) {
  const Normaliser rule = feature == Feature::unit ? Normaliser::none : Normaliser::add_eps;
  return {heads, width, head_dim, feature, rule, 1e-6F, 1e-6F};
}

inline std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// What lies behind each row and each image: nothing that a kernel may touch.
struct Gaps {
  std::int64_t row = 5;
  std::int64_t image = 3;
};

/// Rows of a batch with NaN in their gaps.
template <class T>
struct Tensor {
  std::int64_t images, tokens, dim, stride, image_stride;
  std::vector<T> values;

  Tensor(std::int64_t images_, std::int64_t tokens_, std::int64_t dim_, Gaps gaps)
      : images(images_),
        tokens(tokens_),
        dim(dim_),
        stride(dim_ + gaps.row),
        image_stride(tokens_ * stride + gaps.image),
        values(to_size(images_ * image_stride), T(std::numeric_limits<float>::quiet_NaN())) {}
  Tensor(std::int64_t images_, std::int64_t tokens_, std::int64_t dim_, Gaps gaps, Fill how,
         unsigned seed)
      : Tensor(images_, tokens_, dim_, gaps) {
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

/// A tensor that a kernel reads or writes.
template <class T>
struct OnDevice {
  DeviceArray<T> array;
  std::int64_t stride, image_stride;
  explicit OnDevice(const Tensor<T>& from)
      : array(from.values), stride(from.stride), image_stride(from.image_stride) {}
  cuda::Rows<const T> read() { return {array.data(), stride, image_stride}; }
  cuda::Rows<T> write() { return {array.data(), stride, image_stride}; }
  /// The tensor again; fails where anything beside its rows was written.
  void download(Tensor<T>& to) const {
    to.values = array.download();
    EXPECT_TRUE(array.intact());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(to.values.size()); ++i) {
      const std::int64_t in_image = i % to.image_stride;
      const bool inside = in_image % to.stride < to.dim && in_image < to.tokens * to.stride;
      if (inside) continue;
      ASSERT_TRUE(std::isnan(static_cast<float>(to.values[to_size(i)]))) << "element " << i;
    }
  }
};

/// A multiple of 256 bytes behind a multiple of 256.
class WorkspaceMemory {
 public:
  explicit WorkspaceMemory(std::size_t bytes) : array_(bytes + 256) {}
  void* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(array_.data());
    return array_.data() + (256 - address % 256) % 256;
  }
  [[nodiscard]] bool intact() const { return array_.intact(); }

 private:
  DeviceArray<unsigned char> array_;
};

template <class T>
struct Problem {
  la::Shape shape;
  cuda::Extent extent;
  Tensor<T> q, k, v, grad_y;
  Tensor<T> y, grad_q, grad_k, grad_v;
  std::vector<float> state, denominator;

  Problem(const la::Shape& shape_, std::int64_t images, std::int64_t tokens, Fill how,
          Gaps gaps = {}, std::optional<std::int64_t> queries = {})
      : shape(shape_),
        extent{images, tokens, queries.value_or(tokens), 0, 1, 1},
        q(images, extent.queries, shape.num_heads * shape.width, gaps, how, 1),
        k(images, tokens, shape.num_heads * shape.width, gaps, how, 2),
        v(images, tokens, shape.num_heads * shape.head_dim, gaps, how, 3),
        grad_y(images, extent.queries, shape.num_heads * shape.head_dim, gaps, how, 4),
        y(images, extent.queries, v.dim, gaps),
        grad_q(images, extent.queries, q.dim, gaps),
        grad_k(images, tokens, q.dim, gaps),
        grad_v(images, tokens, v.dim, gaps) {}

  void run(bool backward) {
    OnDevice<T> on_q(q), on_k(k), on_v(v), on_y(y);
    DeviceArray<float> on_state(cuda::state_floats(shape, extent));
    DeviceArray<float> on_denominator(to_size(extent.images * shape.num_heads * extent.queries));
    WorkspaceMemory workspace(cuda::workspace_bytes<T>(shape, extent));
    cuda::forward(
        cuda::ForwardParams<T>{shape, extent, on_q.read(), on_k.read(), on_v.read(), on_y.write(),
                               on_state.data(), on_denominator.data(), workspace.data()},
        nullptr);
    on_y.download(y);
    state = on_state.download();
    denominator = on_denominator.download();
    EXPECT_TRUE(on_state.intact() && on_denominator.intact() && workspace.intact());
    if (!backward) return;
    OnDevice<T> on_grad_y(grad_y), on_grad_q(grad_q), on_grad_k(grad_k), on_grad_v(grad_v);
    // Nothing of the forward pass but its results.
    WorkspaceMemory fresh(cuda::backward_workspace_bytes<T>(shape, extent));
    cuda::backward(cuda::BackwardParams<T>{shape, extent, on_q.read(), on_k.read(), on_v.read(),
                                           on_y.read(), on_state.data(), on_denominator.data(),
                                           on_grad_y.read(), on_grad_q.write(), on_grad_k.write(),
                                           on_grad_v.write(), fresh.data()},
                   nullptr);
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

  /// One rounding of the result, or a few in float32, and those of exponents, which are sums of
  /// three terms, each rounded to 2^-24 of itself.
  static double relative_bound(double largest_exponent) {
    return (sizeof(T) == 2 ? rounding<T>() : 0) + 4e-6 + largest_exponent * 4e-7;
  }
  /// Subnormal numbers of float16 have no relative rounding.
  static double absolute_bound() { return std::is_same_v<T, Float16> ? 6e-8 : 1e-30; }

  static void expect_near(Tensor<T>& found, std::int64_t b, std::int64_t t, const double* expected,
                          const double* magnitude, double relative, const char* what) {
    for (std::int64_t i = 0; i < found.dim; ++i) {
      const auto value = static_cast<double>(static_cast<float>(found.at(b, t, i)));
      ASSERT_LE(std::abs(value - expected[i]), relative * magnitude[i] + absolute_bound())
          << what << " of image " << b << ", row " << t << ", column " << i << ": found " << value
          << ", expected " << expected[i];
    }
  }
};

/// What a problem should give, found once for all schedules.
template <class T>
struct Expected {
  std::vector<la::Mixed> y;  ///< of every `step`th query of each image
  std::vector<la::Gradients> gradients;
  std::int64_t step;

  Expected(const Problem<T>& p, bool backward) : step(p.extent.queries / 12 + 1) {
    for (std::int64_t b = 0; b < p.extent.images; ++b) {
      for (std::int64_t i = 0; i < p.extent.queries; i += step)
        y.push_back(la::linear_attention_reference(p.tokens(b), i));
      if (backward)
        gradients.push_back(la::linear_attention_backward_reference(p.tokens(b), p.grad_y.image(b),
                                                                    p.grad_y.stride));
    }
  }
  void compare(Problem<T>& p) const {
    std::size_t next = 0;
    for (std::int64_t b = 0; b < p.extent.images; ++b)
      for (std::int64_t i = 0; i < p.extent.queries; i += step) {
        const la::Mixed& mixed = y[next++];
        ASSERT_NO_FATAL_FAILURE(p.expect_near(p.y, b, i, mixed.y.data(), mixed.magnitude.data(),
                                              p.relative_bound(mixed.largest_exponent), "y"));
      }
    for (std::size_t b = 0; b < gradients.size(); ++b) {
      const la::Gradients& g = gradients[b];
      // y was rounded before it was used.
      const double relative = 2 * p.relative_bound(g.largest_exponent);
      const auto compare_rows = [&](Tensor<T>& found, const std::vector<double>& expected,
                                    const std::vector<double>& magnitude, const char* what) {
        for (std::int64_t t = 0; t < found.tokens; ++t)
          ASSERT_NO_FATAL_FAILURE(p.expect_near(found, static_cast<std::int64_t>(b), t,
                                                expected.data() + t * found.dim,
                                                magnitude.data() + t * found.dim, relative, what));
      };
      ASSERT_NO_FATAL_FAILURE(compare_rows(p.grad_q, g.q, g.q_magnitude, "grad_q"));
      ASSERT_NO_FATAL_FAILURE(compare_rows(p.grad_k, g.k, g.k_magnitude, "grad_k"));
      ASSERT_NO_FATAL_FAILURE(compare_rows(p.grad_v, g.v, g.v_magnitude, "grad_v"));
    }
  }
};

template <class T>
void check(Problem<T> problem, const char* what, bool backward = true) {
  SCOPED_TRACE(
      std::string(what) + ", map " + std::to_string(static_cast<int>(problem.shape.feature)) +
      ", " + std::to_string(problem.extent.tokens) + " tokens, w " +
      std::to_string(problem.shape.width) + ", d " + std::to_string(problem.shape.head_dim));
  const Expected<T> expected(problem, backward);
  for_each_schedule([&] {
    problem.run(backward);
    ASSERT_NO_FATAL_FAILURE(expected.compare(problem));
  });
}

}  // namespace hydrascope::kernels::test::linear_attention_cuda_test
