// The maps give what the attention kernels of the same mechanism add up: no twin is asked.
#include "kernels/attention_map/attention_map.h"
#include "kernels/hydra/hydra.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/kernel_case.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace attention_map_identities_test {

namespace am = attention_map;
namespace la = linear_attention;
using la::Feature;
using la::Normaliser;

template <class T>
class AttentionMapIdentity : public testing::Test {};
TYPED_TEST_SUITE(AttentionMapIdentity, CpuTypes);

/// The attention kernels round up to four things that the maps leave as they are: features or
/// weights, q_hat, sums, y. In units of the sum of magnitudes.
template <class T>
constexpr double kTolerance = sizeof(T) == 2 ? 4 * 0.5 * rounding<T>() : 1e-4;

/// y of one query from the weights of all tokens, and the same sums of magnitudes.
template <class T>
void expect_mean_of_values(StridedRows<float>& weights, StridedRows<T>& v, StridedRows<T>& y,
                           std::int64_t head_dim) {
  for (std::int64_t c = 0; c < v.dim; ++c) {
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t t = 0; t < v.rows; ++t) {
      const double given = weights.of(c / head_dim, t) * v.of(t, c);
      sum += given;
      magnitude += std::abs(given);
    }
    ASSERT_LE(std::abs(sum - y.of(0, c)), kTolerance<T> * magnitude) << "column " << c;
  }
}

template <class T>
void compare_with_read_out(const la::Shape& shape, Fill how, float prefix_weight,
                           float patch_weight) {
  constexpr std::int64_t kRows = 45;
  constexpr std::int64_t kPrefix = 3;
  StridedRows<T> q(1, shape.num_heads * shape.width, 0, how, 1);
  StridedRows<T> k(kRows, shape.num_heads * shape.width, 5, how, 2);
  StridedRows<T> v(kRows, shape.num_heads * shape.head_dim, 3, Fill::normal, 3);
  StridedRows<T> y(1, shape.num_heads * shape.head_dim, 0);
  std::vector<float> sums(la::sums_size(shape));
  AlignedBuffer<std::byte> scratch(la::scratch_bytes<T>(shape, kRows));
  AlignedBuffer<std::byte> state(la::state_bytes<T>(shape));
  la::clear(shape, sums.data());
  la::accumulate(la::AccumulateParams<T>{shape, k.data(), k.stride, v.data(), v.stride, kRows,
                                         kPrefix, prefix_weight, patch_weight, sums.data(),
                                         scratch.data()});
  la::combine(la::CombineParams<T>{shape, sums.data(), 1, 0, shape.num_heads, state.data()});
  la::read_out(la::ReadOutParams<T>{shape, q.data(), q.stride, 1, state.data(), y.data(), y.stride,
                                    scratch.data()});

  StridedRows<float> weights(shape.num_heads, kRows, 3);
  am::linear_scores(am::LinearScoresParams<T>{shape, q.data(), k.data(), k.stride, kRows, kPrefix,
                                              prefix_weight, patch_weight, weights.data(),
                                              weights.stride});
  const am::Weights rule = la::is_exponential(shape.feature)         ? am::Weights::softmax
                           : shape.normaliser == Normaliser::add_eps ? am::Weights::over_sum
                                                                     : am::Weights::raw;
  am::normalise(weights.data(), weights.stride, shape.num_heads, kRows, rule, shape.eps);
  expect_mean_of_values(weights, v, y, shape.head_dim);
}

TYPED_TEST(AttentionMapIdentity, LinearWeightsAreThoseOfTheReadOut) {
  for_each_instruction_set([] {
    for (const Feature feature :
         {Feature::elu_plus_one, Feature::relu, Feature::unit, Feature::exp, Feature::exp_pair,
          Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred}) {
      SCOPED_TRACE("map " + std::to_string(static_cast<int>(feature)));
      for (const Normaliser rule : {Normaliser::add_eps, Normaliser::none}) {
        // A cosine's sum may be next to nothing: mechanisms with `unit` do not divide by it.
        if (feature == Feature::unit && rule == Normaliser::add_eps) continue;
        for (const float eps : {1e-6F, 20.0F}) {
          const la::Shape shape{2, 37, 24, feature, rule, eps, 1e-6F};
          compare_with_read_out<TypeParam>(shape, Fill::normal, 1, 1);
          compare_with_read_out<TypeParam>(shape, Fill::normal, 0.75F, 0.2F);
          compare_with_read_out<TypeParam>(shape, Fill::normal, 0, 1);
        }
      }
    }
  });
}

TEST(AttentionMapIdentityOfExponents, FarBeyondFloat32) {
  for_each_instruction_set([] {
    compare_with_read_out<float>({2, 16, 24, Feature::exp_pair, Normaliser::add_eps, 0, 0},
                                 Fill::large, 1, 1);
  });
}

TYPED_TEST(AttentionMapIdentity, HydraMapAddsUpToTheGradientTimesY) {
  using hydra::Norm;
  for_each_instruction_set([] {
    for (const hydra::Kernel& kernel :
         {hydra::Kernel{}, hydra::Kernel{Norm::l1, Norm::l1, hydra::Eps::add, 0.5F},
          hydra::Kernel{Norm::l2, Norm::none, hydra::Eps::rsqrt, 0.5F}}) {
      constexpr std::int64_t kRows = 45;
      constexpr std::int64_t kDim = 77;
      constexpr float kScale = 0.7F;
      StridedRows<TypeParam> qkv(kRows, 3 * kDim, 5, Fill::normal, 1);
      StridedRows<TypeParam> q_hat(1, kDim, 0);
      StridedRows<TypeParam> y(1, kDim, 0);
      StridedRows<float> c(1, kDim, 0);
      StridedRows<float> g(1, kDim, 0);
      hydra::ProjectParams<TypeParam> p{};
      p.q = qkv.data();
      p.k = p.q + kDim;
      p.v = p.k + kDim;
      p.q_stride = p.stride = qkv.stride;
      p.query_rows = 1;
      p.rows = kRows;
      p.dim = kDim;
      p.kernel = kernel;
      p.num_prefix = 2;
      p.prefix_weight = 0.5F;
      p.patch_weight = 1.25F;
      p.q_hat = q_hat.data();
      p.q_hat_stride = kDim;
      p.sum = c.data();
      hydra::project(p);
      hydra::combine(c.data(), 1, kDim, kScale, nullptr, g.data());
      hydra::gate(
          hydra::GateParams<TypeParam>{q_hat.data(), kDim, g.data(), 1, kDim, y.data(), kDim});

      StridedRows<float> gradient(1, kDim, 0, Fill::normal, 2);
      StridedRows<float> weight(1, kDim, 0);
      StridedRows<float> heat(1, kRows, 0);
      for (std::int64_t f = 0; f < kDim; ++f)
        weight.at(0, f) = kScale * static_cast<float>(q_hat.at(0, f)) * gradient.at(0, f);
      am::hydra_map(am::HydraMapParams<TypeParam>{
          weight.data(), p.k, p.v, p.stride, kRows, kDim, kernel, p.num_prefix, p.prefix_weight,
          p.patch_weight, am::HydraMeasure::sum, heat.data()});
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t t = 0; t < kRows; ++t) {
        sum += heat.of(0, t);
        magnitude += std::abs(heat.of(0, t));
      }
      double expected = 0;
      for (std::int64_t f = 0; f < kDim; ++f) {
        expected += gradient.of(0, f) * y.of(0, f);
        magnitude += std::abs(gradient.of(0, f) * y.of(0, f));
      }
      EXPECT_LE(std::abs(sum - expected), kTolerance<TypeParam> * magnitude);
    }
  });
}

TYPED_TEST(AttentionMapIdentity, SoftmaxWeightsAreThoseOfAttend) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {1, 45, 577}) {
      const softmax_attention::Shape shape{num_tokens, 2, 24};
      StridedRows<TypeParam> q(1, 48, 3, Fill::normal, 1);
      StridedRows<TypeParam> k(num_tokens, 48, 3, Fill::normal, 2);
      StridedRows<TypeParam> v(num_tokens, 48, 3, Fill::normal, 3);
      StridedRows<TypeParam> y(1, 48, 0);
      AlignedBuffer<TypeParam> keys(softmax_attention::keys_size<TypeParam>(shape));
      AlignedBuffer<TypeParam> values(softmax_attention::values_size<TypeParam>(shape));
      AlignedBuffer<std::byte> scratch(softmax_attention::scratch_bytes<TypeParam>(shape));
      softmax_attention::pack(softmax_attention::PackParams<TypeParam>{
          shape, k.data(), v.data(), k.stride, 0, num_tokens, keys.data(), values.data()});
      softmax_attention::attend(softmax_attention::AttendParams<TypeParam>{
          shape, q.data(), q.stride, 1, keys.data(), values.data(), y.data(), y.stride,
          scratch.data()});
      StridedRows<float> weights(2, num_tokens, 3);
      am::softmax_scores(am::SoftmaxScoresParams<TypeParam>{
          q.data(), k.data(), k.stride, num_tokens, 2, 24, weights.data(), weights.stride});
      am::normalise(weights.data(), weights.stride, 2, num_tokens, am::Weights::softmax, 0);
      expect_mean_of_values(weights, v, y, 24);
    }
  });
}

}  // namespace attention_map_identities_test
}  // namespace hydrascope::kernels::test
