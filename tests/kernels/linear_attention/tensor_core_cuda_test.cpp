// Linear attention on tensor cores against the float64 twins.
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/linear_attention_reference.h"
#include "kernels/linear_attention/tensor_core_geometry.h"
#include "kernels/linear_attention/tensor_core_launch.cuh"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace {

namespace la = linear_attention;
namespace cuda = linear_attention::cuda;
namespace tensor_core = linear_attention::cuda::tensor_core;
using la::Feature;
using la::Normaliser;

constexpr Feature kFeatures[] = {Feature::elu_plus_one, Feature::relu,       Feature::unit,
                                 Feature::exp,          Feature::exp_pair,   Feature::softmax_pair,
                                 Feature::softmax_both, Feature::exp_centred};
/// One map of each kind of kernel.
constexpr Feature kOfEachKind[] = {Feature::exp_pair, Feature::softmax_pair, Feature::exp,
                                   Feature::elu_plus_one};

la::Shape shape_of(Feature feature, std::int64_t heads) {
  const Normaliser rule = feature == Feature::unit ? Normaliser::none : Normaliser::add_eps;
  return {heads, 64, 64, feature, rule, 1e-6F, 1e-6F};
}

std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

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

std::string name_of(Feature feature) { return "map " + std::to_string(static_cast<int>(feature)); }

template <class T>
class LinearAttentionTensorCores : public DeviceTest {
 protected:
  static bool serves(Feature feature) { return cuda::tensor_core_serves<T>(shape_of(feature, 1)); }
};
using Stored = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(LinearAttentionTensorCores, Stored);

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsForEveryMap) {
  for (const Feature feature : kFeatures) {
    if (!this->serves(feature)) continue;
    for (const auto& [tokens, heads, images] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
          {2, 1, 1},
          {31, 2, 1},
          {65, 1, 2}}) {
      SCOPED_TRACE(name_of(feature) + ", tokens " + std::to_string(tokens));
      Problem<TypeParam> problem(shape_of(feature, heads), images, tokens);
      problem.expect(true);
      problem.run(true);
      problem.check();
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsInEveryOrderOfThreads) {
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Problem<TypeParam> problem(shape_of(feature, 1), 1, 66);
    problem.expect(true);
    for_each_schedule([&] {
      problem.run(true);
      problem.check();
    });
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinForManyTokens) {
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    for (const auto& [tokens, heads] :
         {std::pair<std::int64_t, std::int64_t>{64, 1}, {197, 3}, {577, 1}}) {
      SCOPED_TRACE(name_of(feature) + ", tokens " + std::to_string(tokens));
      Problem<TypeParam> problem(shape_of(feature, heads), 1, tokens);
      problem.expect(false, tokens / 6);
      problem.run(false);
      problem.check(tokens / 6);
      if (this->HasFatalFailure()) return;
    }
  }
}

/// In one type, since the twin takes its time.
using LinearAttentionTensorCoresParts = DeviceTest;
TEST_F(LinearAttentionTensorCoresParts, GradientsEqualTheTwin) {
  constexpr std::int64_t kTokens = 450;
  ASSERT_EQ(tensor_core::splits_of(kTokens, 1), 2);
  // Keys and queries rise and fall with the tokens, so that every tile and the second part raise
  // half of the maxima.
  Problem<BFloat16> problem(shape_of(Feature::exp_pair, 1), 1, kTokens);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t i = 0; i < 64; ++i) {
      const float rise = 0.02F * static_cast<float>(i % 2 == 0 ? t : -t);
      problem.k.at(0, t, i) = BFloat16(static_cast<float>(problem.k.at(0, t, i)) + rise);
      problem.q.at(0, t, i) = BFloat16(static_cast<float>(problem.q.at(0, t, i)) - rise);
    }
  problem.expect(true, 7);
  problem.run(true);
  problem.check(7);
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsOnEveryKindOfInput) {
  for (const Feature feature : kFeatures) {
    if (!this->serves(feature)) continue;
    for (const Fill how : kAllFills) {
      if (how == Fill::normal) continue;
      SCOPED_TRACE(name_of(feature) + ", fill " + std::to_string(static_cast<int>(how)));
      Problem<TypeParam> problem(shape_of(feature, 1), 1, 18, how);
      problem.expect(true);
      problem.run(true);
      problem.check();
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, SmallGradientsAreNotLost) {
  Problem<TypeParam> problem(shape_of(Feature::exp_pair, 1), 1, 66);
  for (TypeParam& value : problem.grad_y.values)
    value = TypeParam(static_cast<float>(value) * 1e-3F);
  problem.subnormal = std::is_same_v<TypeParam, Float16>;
  problem.expect(true);
  problem.run(true);
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, TokensWeighTheirKeys) {
  for (const Feature feature :
       {Feature::exp_pair, Feature::softmax_both, Feature::unit, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Problem<TypeParam> problem(shape_of(feature, 1), 1, 67);
    problem.extent.num_prefix = 5;
    problem.extent.prefix_weight = 0.75F;
    problem.extent.patch_weight = 0.2F;
    problem.expect(true);
    problem.run(true);
    problem.check();
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(LinearAttentionTensorCores, TokensOfNoWeightAreNotThere) {
  Problem<TypeParam> problem(shape_of(Feature::exp_pair, 1), 1, 20);
  problem.extent.num_prefix = 3;
  problem.extent.prefix_weight = 0;
  problem.expect(true);
  problem.run(true);
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, QueriesMayBeFewerThanKeys) {
  Problem<TypeParam> problem(shape_of(Feature::exp_pair, 2), 2, 70, Fill::normal, 3);
  problem.expect(false);
  problem.run(false, false);
  problem.check();
  Problem<TypeParam> none(shape_of(Feature::exp_pair, 2), 2, 70, Fill::normal, 0);
  none.run(false);
  EXPECT_EQ(none.state, problem.state);
  Problem<TypeParam> nothing(shape_of(Feature::exp_pair, 2), 2, 0);
  nothing.run(true);
  Problem<TypeParam> nobody(shape_of(Feature::exp_pair, 2), 0, 7);
  nobody.run(true);
}

/// The state and the denominators are a contract with the other kernels of the folder.
TYPED_TEST(LinearAttentionTensorCores, StateAndDenominatorsAreWhatTheHeaderSays) {
  for (const Feature feature : {Feature::exp_pair, Feature::exp_centred, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    const bool exponential = la::is_exponential(feature);
    const la::Shape shape = shape_of(feature, 2);
    Problem<TypeParam> problem(shape, 1, 66);
    problem.run(false);
    const std::int64_t features = shape.features();
    const auto mapped = [&](Tensor<TypeParam>& rows, std::int64_t t, std::int64_t h) {
      std::vector<double> u;
      for (std::int64_t i = 0; i < 64; ++i)
        u.push_back(static_cast<double>(static_cast<float>(rows.at(0, t, h * 64 + i))));
      const double most = *std::max_element(u.begin(), u.end());
      const double least = *std::min_element(u.begin(), u.end());
      std::vector<double> values;
      for (std::int64_t f = 0; f < features; ++f) {
        const double x = u[to_size(f % 64)];
        if (feature == Feature::relu) values.push_back(std::max(x, 0.0));
        if (feature == Feature::exp_pair) values.push_back(f < 64 ? x : -x);
        if (feature == Feature::exp_centred) values.push_back(f < 64 ? x - most : least - x);
      }
      return values;
    };
    for (std::int64_t h = 0; h < 2; ++h) {
      std::vector<double> maxima(to_size(features), exponential ? -1e30 : 0.0);
      for (std::int64_t t = 0; t < 66 && exponential; ++t)
        for (std::int64_t f = 0; f < features; ++f)
          maxima[to_size(f)] = std::max(maxima[to_size(f)], mapped(problem.k, t, h)[to_size(f)]);
      std::vector<double> z(to_size(features));
      for (std::int64_t f = 0; f < features; ++f) {
        double s = 0;
        double size = 0;
        for (std::int64_t t = 0; t < 66; ++t) {
          double b = mapped(problem.k, t, h)[to_size(f)];
          if (exponential) b = std::exp(b - maxima[to_size(f)]);
          const double value =
              static_cast<double>(static_cast<float>(problem.v.at(0, t, h * 64 + 9)));
          z[to_size(f)] += b;
          s += b * value;
          size += b * std::abs(value);
        }
        const double relative = 1.2 * rounding<TypeParam>();
        const std::int64_t row = h * features + f;
        EXPECT_NEAR(problem.state[to_size(row * 64 + 9)], s, relative * size);
        EXPECT_NEAR(problem.state[to_size(2 * features * 64 + row)], z[to_size(f)],
                    relative * z[to_size(f)]);
        EXPECT_NEAR(problem.state[to_size(2 * features * 65 + row)], maxima[to_size(f)], 1e-6);
      }
      for (std::int64_t t = 0; t < 66; ++t) {
        std::vector<double> a = mapped(problem.q, t, h);
        double most = -1e30;
        double m = exponential ? 0 : 1e-6;
        for (std::size_t f = 0; f < a.size() && exponential; ++f)
          most = std::max(most, a[f] + maxima[f]);
        for (std::size_t f = 0; f < a.size(); ++f)
          m += (exponential ? std::exp(a[f] + maxima[f] - most) : a[f]) * z[f];
        EXPECT_NEAR(problem.denominator[to_size(h * 66 + t)], m, 2 * rounding<TypeParam>() * m);
      }
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, NanReachesWhatDependsOnItAndNothingElse) {
  const TypeParam nan(std::numeric_limits<float>::quiet_NaN());
  for (const Feature feature : kFeatures) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Problem<TypeParam> problem(shape_of(feature, 3), 1, 20);
    problem.q.at(0, 2, 63) = nan;        // row 2 of head 0
    problem.k.at(0, 19, 64 + 3) = nan;   // all of head 1
    problem.v.at(0, 6, 128 + 63) = nan;  // the last column of head 2
    problem.run(false);
    for (std::int64_t r = 0; r < 20; ++r)
      for (std::int64_t c = 0; c < 192; ++c) {
        const bool expected = c < 64 ? r == 2 : c < 128 || c == 191;
        ASSERT_EQ(std::isnan(static_cast<float>(problem.y.at(0, r, c))), expected)
            << "row " << r << ", column " << c;
      }
    // Gradients: a NaN in grad_y spoils its query, and all keys of its head.
    Problem<TypeParam> reversed(shape_of(feature, 2), 1, 20);
    reversed.grad_y.at(0, 4, 7) = nan;
    reversed.run(true);
    const auto is_nan = [](Tensor<TypeParam>& rows, std::int64_t t, std::int64_t c) {
      return std::isnan(static_cast<float>(rows.at(0, t, c)));
    };
    for (std::int64_t r = 0; r < 20; ++r) {
      ASSERT_EQ(is_nan(reversed.grad_q, r, 5), r == 4 && feature != Feature::relu) << "row " << r;
      ASSERT_TRUE(is_nan(reversed.grad_v, r, 7)) << "row " << r;
      for (std::int64_t c = 64; c < 128; ++c)
        ASSERT_FALSE(is_nan(reversed.grad_q, r, c) || is_nan(reversed.grad_k, r, c) ||
                     is_nan(reversed.grad_v, r, c));
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, AnImageIsTheSameAloneAndAmongOthersAndAgain) {
  for (const std::int64_t tokens : {90, 460}) {  // in one part and in two
    const la::Shape shape = shape_of(Feature::exp_pair, 1);
    Problem<TypeParam> both(shape, 2, tokens);
    both.run(true);
    Problem<TypeParam> again(shape, 2, tokens);
    again.run(true);
    const auto bits_equal = [](Tensor<TypeParam>& a, std::int64_t image, Tensor<TypeParam>& b,
                               std::int64_t of) {
      for (std::int64_t t = 0; t < a.tokens; ++t)
        for (std::int64_t i = 0; i < a.dim; ++i)
          ASSERT_EQ(a.at(image, t, i).bits, b.at(of, t, i).bits) << "row " << t << ", " << i;
    };
    for (std::int64_t b = 0; b < 2; ++b) {
      Problem<TypeParam> alone(shape, 1, tokens);
      for (const auto part : {&Problem<TypeParam>::q, &Problem<TypeParam>::k,
                              &Problem<TypeParam>::v, &Problem<TypeParam>::grad_y})
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t i = 0; i < 64; ++i)
            (alone.*part).at(0, t, i) = (both.*part).at(b, t, i);
      alone.run(true);
      for (const auto part : {&Problem<TypeParam>::y, &Problem<TypeParam>::grad_q,
                              &Problem<TypeParam>::grad_k, &Problem<TypeParam>::grad_v}) {
        bits_equal(both.*part, b, alone.*part, 0);
        bits_equal(both.*part, b, again.*part, b);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

/// Blocks of several tiles, the last of which has no rows, against blocks of one.
TYPED_TEST(LinearAttentionTensorCores, RowsDoNotDependOnTheBlockTheyAreIn) {
  constexpr std::int64_t kTokens = 261;
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Problem<TypeParam> alone(shape_of(feature, 2), 1, kTokens);
    alone.run(true);
    ASSERT_EQ(tensor_core::tiles_a_block(1, 2, kTokens), 1);
    Problem<TypeParam> together(shape_of(feature, 2), 1, kTokens);
    EXPECT_EQ(tensor_core::tiles_a_block(1, 2, kTokens, 1), 3);
    together.run(true, true, 1);
    for (const auto part : {&Problem<TypeParam>::y, &Problem<TypeParam>::grad_q,
                            &Problem<TypeParam>::grad_k, &Problem<TypeParam>::grad_v})
      for (std::int64_t t = 0; t < kTokens; ++t)
        for (std::int64_t i = 0; i < 128; ++i)
          ASSERT_EQ((alone.*part).at(0, t, i).bits, (together.*part).at(0, t, i).bits)
              << "row " << t << ", column " << i;
    EXPECT_EQ(alone.denominator, together.denominator);
  }
}

TEST(LinearAttentionTensorCoresDoor, ServesWhatItSaysAndRefusesTheRest) {
  la::Shape shape = shape_of(Feature::exp_pair, 12);
  EXPECT_TRUE(cuda::tensor_core_serves<BFloat16>(shape));
  EXPECT_TRUE(cuda::tensor_core_serves<Float16>(shape));
  EXPECT_FALSE(cuda::tensor_core_serves<float>(shape));
  EXPECT_TRUE(cuda::tensor_core_serves<BFloat16>(shape_of(Feature::unit, 1)));
  EXPECT_FALSE(cuda::tensor_core_serves<Float16>(shape_of(Feature::unit, 1)));
  shape.head_dim = 32;
  EXPECT_FALSE(cuda::tensor_core_serves<BFloat16>(shape));
  shape.head_dim = 64;
  shape.width = 48;
  EXPECT_FALSE(cuda::tensor_core_serves<BFloat16>(shape));

  const Problem<BFloat16> problem(shape_of(Feature::exp_pair, 1), 1, 4);
  alignas(16) BFloat16 memory[24] = {};
  const cuda::Rows<const BFloat16> rows{memory, 64, 256};
  alignas(16) float state[8] = {};
  const cuda::ForwardParams<BFloat16> good{problem.shape,    problem.extent, rows,    rows,   rows,
                                           {memory, 64, 64}, state,          nullptr, nullptr};
  EXPECT_TRUE(cuda::tensor_core_serves(good));
  auto bad = good;
  bad.q.data = memory + 4;
  EXPECT_FALSE(cuda::tensor_core_serves(bad));
  bad = good;
  bad.v.stride = 68;
  EXPECT_FALSE(cuda::tensor_core_serves(bad));
  bad = good;
  bad.y.image_stride = 100;
  EXPECT_FALSE(cuda::tensor_core_serves(bad));
  bad = good;
  bad.state = state + 1;
  EXPECT_FALSE(cuda::tensor_core_serves(bad));
  bad = good;
  bad.extent.patch_weight = -1;
  EXPECT_FALSE(cuda::tensor_core_serves(bad));
}

TEST(LinearAttentionTensorCoresGeometry, PartsDependOnTheTokensAndFillTheGpuAtBatchOne) {
  EXPECT_EQ(tensor_core::splits_of(1, 12), 1);
  EXPECT_EQ(tensor_core::splits_of(197, 12), 1);
  EXPECT_EQ(tensor_core::splits_of(577, 12), 2);
  EXPECT_EQ(tensor_core::splits_of(8161, 12), 22);
  EXPECT_EQ(tensor_core::splits_of(8161, 3), 32);
  EXPECT_EQ(tensor_core::splits_of(32401, 12), 22);
  EXPECT_EQ(tensor_core::splits_of(32401, 1000), 1);
  for (const std::int64_t tokens : {1, 63, 64, 65, 500, 8161, 100000})
    for (const std::int64_t heads : {1, 3, 12, 300}) {
      const std::int64_t splits = tensor_core::splits_of(tokens, heads);
      EXPECT_LE(splits, tensor_core::tiles_of(tokens));  // none is empty
      for (const std::int64_t images : {1, 7, 4096}) {
        EXPECT_EQ(device::illegal(tensor_core::state_geometry(images, heads, tokens)), "");
        const device::Geometry rows = tensor_core::rows_geometry(images, heads, tokens);
        EXPECT_EQ(device::illegal(rows), "");
        // Every tile has a block, and no block is without a tile.
        const std::int64_t a_block = tensor_core::tiles_a_block(images, heads, tokens);
        const std::int64_t blocks = rows.grid.x / images;
        EXPECT_GE(blocks * a_block, tensor_core::tiles_of(tokens));
        EXPECT_LT((blocks - 1) * a_block, tensor_core::tiles_of(tokens));
        EXPECT_EQ(device::illegal(tensor_core::combine_geometry(images, heads, 128)), "");
      }
    }
}

}  // namespace
}  // namespace hydrascope::kernels::test
