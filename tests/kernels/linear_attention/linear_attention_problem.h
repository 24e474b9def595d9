// Queries, keys and values on the device, what linear attention makes of them there and what its
// float64 twins say: what the tests of both families of CUDA kernels compare.
#pragma once

#include "kernels/linear_attention/geometry.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::test {

namespace la = linear_attention;
namespace cuda = linear_attention::cuda;
using la::Feature;
using la::kAllFeatures;
using la::name_of;
using la::Normaliser;
using la::shape_of;

inline std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// A workspace behind a multiple of 256 bytes.
class WorkspaceMemory {
 public:
  explicit WorkspaceMemory(std::size_t bytes)
      : array_(bytes + 255),
        first_((256 - reinterpret_cast<std::uintptr_t>(array_.data()) % 256) % 256),
        bytes_(bytes) {}
  void* data() { return array_.data() + first_; }
  /// Whether nothing was written outside.
  [[nodiscard]] bool intact() const {
    const std::vector<unsigned char> all = array_.download();
    const auto untouched = [](unsigned char byte) { return byte == 0xff; };
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first_);
    return array_.intact() && std::all_of(all.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), all.end(), untouched);
  }

 private:
  DeviceArray<unsigned char> array_;
  std::size_t first_;
  std::size_t bytes_;
};

template <class T>
struct Problem {
  la::Shape shape;
  cuda::Extent extent;
  TokenRows<T> q, k, v, grad_y;
  TokenRows<T> y, grad_q, grad_k, grad_v;
  std::vector<float> state, denominator;

  Problem(const la::Shape& shape_, std::int64_t images, std::int64_t tokens,
          Fill how = Fill::normal, std::optional<std::int64_t> queries = {})
      : shape(shape_),
        extent{images, tokens, queries.value_or(tokens), {}},
        q(images, extent.queries, shape.num_heads * shape.width, Layout::packed, how, 1),
        k(images, tokens, shape.num_heads * shape.width, Layout::packed, how, 2),
        v(images, tokens, shape.num_heads * shape.head_dim, Layout::packed, how, 3),
        grad_y(images, extent.queries, shape.num_heads * shape.head_dim, Layout::packed, how, 4),
        y(images, extent.queries, v.dim(), Layout::packed),
        grad_q(images, extent.queries, q.dim(), Layout::packed),
        grad_k(images, tokens, q.dim(), Layout::packed),
        grad_v(images, tokens, v.dim(), Layout::packed) {}

  /// Training, which alone needs gradients, knows float32 and bfloat16.
  static constexpr bool kHasBackward = !std::is_same_v<T, Float16>;
  void run(bool backward, bool want_denominator = true) {
    for (TokenRows<T>* rows : {&q, &k, &v, &grad_y}) rows->upload();
    DeviceArray<float> on_state(cuda::state_floats(shape, extent));
    DeviceArray<float> on_denominator(to_size(extent.images * shape.num_heads * extent.queries));
    WorkspaceMemory workspace(cuda::workspace_bytes<T>(shape, extent));
    cuda::forward<T>({shape, extent, q.read(), k.read(), v.read(), y.write(), on_state.data(),
                      want_denominator ? on_denominator.data() : nullptr, workspace.data()},
                     nullptr);
    y.download("y");
    state = on_state.download();
    denominator = on_denominator.download();
    EXPECT_TRUE(on_state.intact() && on_denominator.intact() && workspace.intact());
    if constexpr (kHasBackward) {
      if (!backward) return;
      // Nothing of the forward pass but its results.
      WorkspaceMemory fresh(cuda::backward_workspace_bytes<T>(shape, extent));
      cuda::backward<T>({shape, extent, q.read(), k.read(), v.read(), y.read(), on_state.data(),
                         on_denominator.data(), grad_y.read(), grad_q.write(), grad_k.write(),
                         grad_v.write(), fresh.data()},
                        nullptr);
      grad_q.download("grad_q");
      grad_k.download("grad_k");
      grad_v.download("grad_v");
      EXPECT_TRUE(on_state.intact() && on_denominator.intact() && fresh.intact());
    }
  }

  /// Makes image 0 what image b of another problem is.
  void take(Problem& from, std::int64_t b) {
    for (const auto rows : {&Problem::q, &Problem::k, &Problem::v, &Problem::grad_y})
      (this->*rows).take(from.*rows, b);
  }
  /// The values that both passes have made of an image.
  std::vector<T> results(std::int64_t b) {
    std::vector<T> all;
    for (TokenRows<T>* rows : {&y, &grad_q, &grad_k, &grad_v})
      for (const T value : rows->values(b, 1)) all.push_back(value);
    return all;
  }

  [[nodiscard]] la::Tokens<T> tokens(std::int64_t b) const {
    return {shape,      q.host_of(b), q.stride(), extent.queries, k.host_of(b),
            k.stride(), v.host_of(b), v.stride(), extent.tokens,  extent.weights};
  }
};

/// How far a family of kernels may be from the twins.
struct Bounds {
  double y;           ///< relative to the size of the sums behind a value
  double gradient;    ///< likewise
  double y_exponent;  ///< what the largest exponent adds to that
  double gradient_exponent;
  double of_largest;  ///< relative to the largest such size of a tensor
  double absolute;
};

/// The state and the denominators of exp_pair, exp_centred and relu are what linear_attention_cuda.h
/// says, for the last column of S: a contract of both passes and both families. `unit`: a rounding.
template <class T>
void expect_state(Problem<T>& p, double unit) {
  const Feature feature = p.shape.rule.feature;
  const bool exponential = la::is_exponential(feature);
  const std::int64_t features = p.shape.features();
  const std::int64_t width = p.shape.width;
  const std::int64_t dim = p.shape.head_dim;
  const std::int64_t heads = p.extent.images * p.shape.num_heads;
  ASSERT_EQ(p.state.size(), to_size(heads * features * (dim + 2)));
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t b = head / p.shape.num_heads;
    const std::int64_t h = head % p.shape.num_heads;
    const auto number = [&](TokenRows<T>& rows, std::int64_t t, std::int64_t column) {
      return static_cast<double>(static_cast<float>(rows.at(b, t, column)));
    };
    // Exponents, or the features of relu.
    const auto mapped = [&](TokenRows<T>& rows, std::int64_t t) {
      std::vector<double> u;
      for (std::int64_t i = 0; i < width; ++i) u.push_back(number(rows, t, h * width + i));
      const auto [least, most] = std::minmax_element(u.begin(), u.end());
      std::vector<double> values;
      for (std::int64_t f = 0; f < features; ++f) {
        const double x = u[to_size(f % width)];
        if (feature == Feature::relu) values.push_back(std::max(x, 0.0));
        if (feature == Feature::exp_pair) values.push_back(f < width ? x : -x);
        if (feature == Feature::exp_centred) values.push_back(f < width ? x - *most : *least - x);
      }
      return values;
    };
    std::vector<double> maxima(to_size(features), exponential ? -1e30 : 0.0);
    for (std::int64_t t = 0; t < p.extent.tokens && exponential; ++t) {
      const std::vector<double> b_t = mapped(p.k, t);
      for (std::size_t f = 0; f < b_t.size(); ++f) maxima[f] = std::max(maxima[f], b_t[f]);
    }
    std::vector<double> z(maxima.size());
    twin::Sums s(maxima.size());
    for (std::int64_t t = 0; t < p.extent.tokens; ++t) {
      const std::vector<double> b_t = mapped(p.k, t);
      const double value = number(p.v, t, h * dim + dim - 1);
      for (std::size_t f = 0; f < b_t.size(); ++f) {
        const double weight = exponential ? std::exp(b_t[f] - maxima[f]) : b_t[f];
        z[f] += weight;
        s.add(f, weight * value, weight * value);
      }
    }
    for (std::size_t f = 0; f < z.size(); ++f) {
      const std::size_t row = to_size(head * features) + f;
      const std::size_t rows = to_size(heads * features);
      EXPECT_NEAR(p.state[(row + 1) * to_size(dim) - 1], s.values[f], 1.2 * unit * s.magnitudes[f]);
      EXPECT_NEAR(p.state[rows * to_size(dim) + row], z[f], 1.2 * unit * z[f]);
      EXPECT_NEAR(p.state[rows * to_size(dim + 1) + row], maxima[f], 1e-6);
    }
    for (std::int64_t t = 0; t < p.extent.queries; ++t) {
      const std::vector<double> a = mapped(p.q, t);
      double most = -1e30;
      double m = exponential ? 0 : 1e-6;
      for (std::size_t f = 0; f < a.size() && exponential; ++f)
        most = std::max(most, a[f] + maxima[f]);
      for (std::size_t f = 0; f < a.size(); ++f)
        m += (exponential ? std::exp(a[f] + maxima[f] - most) : a[f]) * z[f];
      EXPECT_NEAR(p.denominator[to_size(head * p.extent.queries + t)], m, 2 * unit * m);
    }
  }
}

/// A NaN in the last image reaches what depends on it, and nothing else. Four heads.
template <class T>
void expect_reach_of_nan(Problem<T> p) {
  const std::int64_t last = p.extent.images - 1;
  const std::int64_t width = p.shape.width;
  const std::int64_t dim = p.shape.head_dim;
  const T nan = TokenRows<T>::nan();
  p.q.at(last, 2, width - 1) = nan;         // row 2 of head 0
  p.k.at(last, 5, width + 3) = nan;         // all of head 1
  p.v.at(last, 6, 3 * dim - 1) = nan;       // the last column of head 2
  p.grad_y.at(last, 7, 3 * dim + 4) = nan;  // head 3, backward only
  p.run(true);
  const auto is_nan = [&](TokenRows<T>& x, std::int64_t b, std::int64_t t, std::int64_t i) {
    return std::isnan(static_cast<float>(x.at(b, t, i)));
  };
  constexpr bool kGradients = Problem<T>::kHasBackward;
  for (std::int64_t t = 0; t < p.extent.tokens; ++t) {
    for (std::int64_t c = 0; c < 4 * dim; ++c) {
      SCOPED_TRACE("row " + std::to_string(t) + ", column " + std::to_string(c));
      for (std::int64_t b = 0; b < last; ++b)
        ASSERT_FALSE(is_nan(p.y, b, t, c) || (kGradients && is_nan(p.grad_v, b, t, c)));
      ASSERT_EQ(is_nan(p.y, last, t, c), c < dim ? t == 2 : c < 2 * dim || c == 3 * dim - 1);
      if (kGradients && c >= 3 * dim) {
        ASSERT_EQ(is_nan(p.grad_v, last, t, c), c == 3 * dim + 4);
      }
    }
    for (std::int64_t i = 0; kGradients && i < 4 * width; ++i) {
      SCOPED_TRACE("row " + std::to_string(t) + ", element " + std::to_string(i));
      for (std::int64_t b = 0; b < last; ++b)
        ASSERT_FALSE(is_nan(p.grad_q, b, t, i) || is_nan(p.grad_k, b, t, i));
      // relu's gradient may be 0 times NaN.
      if (p.shape.rule.feature == Feature::relu || i < 3 * width) continue;
      ASSERT_EQ(is_nan(p.grad_q, last, t, i), t == 7);
      ASSERT_TRUE(is_nan(p.grad_k, last, t, i));
    }
  }
}

/// The right results of a problem, found once for all schedules.
template <class T>
class Expected {
 public:
  /// y of every `step`th query of each image, and all gradients.
  Expected(const Problem<T>& p, bool backward, std::int64_t step) : step_(step) {
    for (std::int64_t b = 0; b < p.extent.images; ++b) {
      for (std::int64_t i = 0; i < p.extent.queries; i += step)
        y_.push_back(la::linear_attention_reference(p.tokens(b), i));
      if (backward && Problem<T>::kHasBackward)
        gradients_.push_back(la::linear_attention_backward_reference(
            p.tokens(b), p.grad_y.host_of(b), p.grad_y.stride()));
    }
  }
  /// `most_normalised`: of the error of all gradients of an image, relative to their norm.
  void compare(Problem<T>& p, const Bounds& bounds,
               double most_normalised = std::numeric_limits<double>::infinity()) const {
    std::size_t next = 0;
    for (std::int64_t b = 0; b < p.extent.images; ++b)
      for (std::int64_t i = 0; i < p.extent.queries; i += step_) {
        const la::Mixed& mixed = y_[next++];
        const double relative = bounds.y + mixed.largest_exponent * bounds.y_exponent;
        ASSERT_NO_FATAL_FAILURE(compare_rows(p.y, b, i, mixed.y, relative, bounds, "y"));
      }
    for (std::size_t b = 0; b < gradients_.size(); ++b) {
      const la::Gradients& g = gradients_[b];
      const double relative = bounds.gradient + g.largest_exponent * bounds.gradient_exponent;
      const auto compare_all = [&](TokenRows<T>& found, const twin::Sums& expected,
                                   const char* what) {
        compare_rows(found, static_cast<std::int64_t>(b), 0, expected, relative, bounds, what,
                     most_normalised);
      };
      ASSERT_NO_FATAL_FAILURE(compare_all(p.grad_q, g.q, "grad_q"));
      ASSERT_NO_FATAL_FAILURE(compare_all(p.grad_k, g.k, "grad_k"));
      ASSERT_NO_FATAL_FAILURE(compare_all(p.grad_v, g.v, "grad_v"));
    }
  }

 private:
  /// Rows from `first` on, as many as are expected.
  static void compare_rows(TokenRows<T>& found, std::int64_t b, std::int64_t first,
                           const twin::Sums& sums, double relative, const Bounds& bounds,
                           const char* what,
                           double most_normalised = std::numeric_limits<double>::infinity()) {
    const std::vector<double>& expected = sums.values;
    const std::vector<double>& magnitude = sums.magnitudes;
    double largest = 0;
    for (const double size : magnitude) largest = std::max(largest, std::abs(size));
    double errors = 0;
    double squares = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::int64_t t = first + static_cast<std::int64_t>(i) / found.dim();
      const std::int64_t column = static_cast<std::int64_t>(i) % found.dim();
      const auto value = static_cast<double>(static_cast<float>(found.at(b, t, column)));
      const double error = std::abs(value - expected[i]);
      ASSERT_LE(error, relative * magnitude[i] + bounds.of_largest * largest + bounds.absolute)
          << what << " of image " << b << ", row " << t << ", column " << column << ": found "
          << value << ", expected " << expected[i] << ", magnitude " << magnitude[i];
      errors += error * error;
      squares += expected[i] * expected[i];
    }
    if (std::isfinite(most_normalised)) {
      EXPECT_LE(std::sqrt(errors / squares), most_normalised) << what;
    }
  }

  std::int64_t step_;
  std::vector<la::Mixed> y_;
  std::vector<la::Gradients> gradients_;
};

}  // namespace hydrascope::kernels::test
