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

/// What a problem should give, found once for all schedules.
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
