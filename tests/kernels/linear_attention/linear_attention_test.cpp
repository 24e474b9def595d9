#include "kernels/linear_attention/linear_attention.h"

#include "kernels/linear_attention/layout.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/linear_attention/linear_attention_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace hydrascope::kernels::test {
namespace linear_attention_test {

template <class T>
class LinearAttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(LinearAttentionKernel, CpuTypes);

TYPED_TEST(LinearAttentionKernel, EqualsTheTwinForEveryMapAndInstructionSet) {
  for_each_instruction_set([] {
    for (const Feature feature : kAllFeatures) {
      SCOPED_TRACE(name_of(feature));
      for (const std::int64_t rows : {1, 2, 31, 33}) {
        Image<TypeParam> image(shape_of(feature, 2, 64, 64), rows, Fill::normal);
        image.mix(rows);
        image.compare(rows / 2 + 1);
      }
    }
  });
}

TEST(LinearAttentionTargets, EveryTargetBesideAmxEqualsTheTwin) {
  for_each_target_beside_amx([] {
    for (const auto& [width, head_dim] :
         {std::pair<std::int64_t, std::int64_t>{64, 64}, {24, 70}}) {
      Image<BFloat16> image(shape_of(Feature::softmax_pair, 2, width, head_dim), 53, Fill::normal);
      image.mix(33);
      image.compare(17);
    }
  });
}

TYPED_TEST(LinearAttentionKernel, EqualsTheTwinForHeadsThatNoVectorDivides) {
  for_each_instruction_set([] {
    for (const Feature feature : kAllFeatures) {
      for (const auto& [width, head_dim] :
           {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 96}, {24, 24}, {37, 130}, {80, 3}}) {
        SCOPED_TRACE(name_of(feature) + ", width " + std::to_string(width));
        Image<TypeParam> image(shape_of(feature, 2, width, head_dim), 9, Fill::normal);
        image.mix(5);
        image.compare(4);
      }
    }
  });
}

TYPED_TEST(LinearAttentionKernel, EqualsTheTwinForManyTokensInTiles) {
  for_each_instruction_set([] {
    for (const Feature feature : {Feature::elu_plus_one, Feature::unit, Feature::exp_pair}) {
      SCOPED_TRACE(name_of(feature));
      for (const auto& [rows, tile] :
           {std::pair<std::int64_t, std::int64_t>{197, 197}, {198, 96}, {577, 301}}) {
        Image<TypeParam> image(shape_of(feature, 1, 32, 32), rows, Fill::normal);
        image.mix(tile);
        image.compare(rows / 3);
      }
    }
  });
}

TYPED_TEST(LinearAttentionKernel, EqualsTheTwinOnEveryKindOfInput) {
  for (const Feature feature : kAllFeatures) {
    for (const Fill how : kAllFills) {
      SCOPED_TRACE(name_of(feature) + ", fill " + std::to_string(static_cast<int>(how)));
      Image<TypeParam> image(shape_of(feature, 2, 32, 48), 32, how);
      image.mix(13);
      image.compare(11);
    }
  }
}

TYPED_TEST(LinearAttentionKernel, TokensWeighTheirKeys) {
  for_each_instruction_set([] {
    for (const Feature feature : {Feature::unit, Feature::relu, Feature::exp_pair}) {
      SCOPED_TRACE(name_of(feature));
      Image<TypeParam> image(shape_of(feature, 2, 32, 32), 33, Fill::normal);
      image.weights = {14, 0.75, 0.2};
      image.mix(11);
      image.compare(5);
    }
  });
}

TYPED_TEST(LinearAttentionKernel, RisingMaximaKeepWhatWasSummed) {
  for_each_instruction_set([] {
    Image<TypeParam> image(shape_of(Feature::exp_pair, 1, 32, 64), 300, Fill::normal);
    for (std::int64_t r = 0; r < image.rows; ++r)
      for (std::int64_t i = 0; i < 32; ++i)
        image.k.at(r, i) = TypeParam(static_cast<float>(image.k.at(r, i)) +
                                     0.01F * static_cast<float>(i % 2 == 0 ? r : -r));
    image.mix(300);
    image.compare(50);
    image.mix(64);
    image.compare(50);
  });
}

TYPED_TEST(LinearAttentionKernel, ExponentsFarBeyondFloat32StayExact) {
  for_each_instruction_set([] {
    Image<TypeParam> image(shape_of(Feature::exp_pair, 2, 16, 16), 20, Fill::large);
    image.mix(7);
    image.compare(1);
  });
}

TYPED_TEST(LinearAttentionKernel, TokensAreAddedToTheSumsAndNoneChangeNothing) {
  const la::Shape shape = shape_of(Feature::relu, 2, 8, 4);
  Image<TypeParam> image(shape, 6, Fill::normal);
  std::vector<float> sums(la::sums_size(shape));
  Workspace scratch(la::scratch_bytes<TypeParam>(shape, 6));
  la::clear(shape, sums.data());
  la::AccumulateParams<TypeParam> params{
      shape, image.k.data(), image.k.stride, image.v.data(), image.v.stride, 6,
      {},    sums.data(),    scratch.data()};
  la::accumulate(params);
  const std::vector<float> once = sums;
  params.rows = 0;
  la::accumulate(params);
  EXPECT_EQ(sums, once);
  params.rows = 6;
  la::accumulate(params);
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (std::isfinite(once[i])) {
      EXPECT_NEAR(sums[i], 2 * once[i], 1e-5) << i;
    }
}

TYPED_TEST(LinearAttentionKernel, CombinedSumsAreTheTwinsOfAllTiles) {
  for_each_instruction_set([] {
    for (const Feature feature : kAllFeatures) {
      for (const auto& [width, head_dim] :
           {std::pair<std::int64_t, std::int64_t>{64, 64}, {5, 96}}) {
        SCOPED_TRACE(name_of(feature) + ", width " + std::to_string(width));
        Image<TypeParam> image(shape_of(feature, 2, width, head_dim), 33, Fill::normal);
        image.weights = {14, 0.75, 0.2};
        image.mix(10);
        const la::Tokens<TypeParam> tokens{
            image.shape,    image.q.data(), image.q.stride, 33, image.k.data(),
            image.k.stride, image.v.data(), image.v.stride, 33, image.weights};
        const std::vector<double> expected = la::sums_reference(tokens);
        ASSERT_EQ(image.combined.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(image.combined[i], expected[i],
                      10 * image.relative_bound() * (1 + std::abs(expected[i])))
              << i;
      }
    }
  });
}

TYPED_TEST(LinearAttentionKernel, ReadOutOfNoRowsWritesNothing) {
  const la::Shape shape = shape_of(Feature::exp_pair, 1, 8, 8);
  Workspace state(la::state_bytes<TypeParam>(shape));
  Workspace scratch(la::scratch_bytes<TypeParam>(shape, 0));
  la::read_out(
      la::ReadOutParams<TypeParam>{shape, nullptr, 8, 0, state.data(), nullptr, 8, scratch.data()});
}

TYPED_TEST(LinearAttentionKernel, NanReachesWhatDependsOnIt) {
  const TypeParam nan(std::numeric_limits<float>::quiet_NaN());
  for_each_instruction_set([nan] {
    for (const Feature feature : kAllFeatures) {
      SCOPED_TRACE(name_of(feature));
      const la::Shape shape = shape_of(feature, 3, 20, 24);
      Image<TypeParam> image(shape, 17, Fill::normal);
      image.q.at(2, 19) = nan;       // row 2 of head 0
      image.k.at(5, 20 + 3) = nan;   // all of head 1
      image.v.at(6, 48 + 23) = nan;  // the last column of head 2
      image.mix(6);
      for (std::int64_t r = 0; r < 17; ++r)
        for (std::int64_t c = 0; c < 72; ++c) {
          const bool expected = c < 24 ? r == 2 : c < 48 || c == 71;
          ASSERT_EQ(image.y.is_nan(r, c), expected) << "row " << r << ", column " << c;
        }
    }
  });
}

TYPED_TEST(LinearAttentionKernel, ScratchOfATileServesEveryShorterTile) {
  const linear_attention::Shape shape{1, 32, 32, {linear_attention::Feature::exp_pair}};
  for (std::int64_t most = 1; most < 600; most += 7)
    for (std::int64_t rows = 1; rows <= most; ++rows)
      ASSERT_LE(linear_attention::KeyScratch<TypeParam>(shape, rows).bytes,
                linear_attention::scratch_bytes<TypeParam>(shape, most))
          << rows << " of " << most;
}

}  // namespace linear_attention_test
}  // namespace hydrascope::kernels::test
