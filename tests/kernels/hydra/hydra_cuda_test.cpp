#include "kernels/hydra/hydra_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/hydra/hydra_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hydrascope::kernels::test {
namespace hydra_cuda_test {

using hydra::Norm;

/// Chains of at most 60 additions, and a few products around them, each half a unit of float32.
constexpr double kOfSums = 4e-6;

template <class T>
class HydraCuda : public DeviceTest {};
TYPED_TEST_SUITE(HydraCuda, GpuTypes);

struct Case {
  std::int64_t images = 1;
  std::int64_t tokens = 5;
  std::int64_t dim = 64;
  std::int64_t queries = -1;  ///< all
  Fill how = Fill::normal;
  hydra::Kernel kernel = {};
  bool scaled = true;  ///< by feature_scale
};

/// A batch with all that is read and written.
template <class T>
struct Batch {
  hydra::cuda::Shape shape;
  TokenRows<T> q;
  TokenRows<T> k;
  TokenRows<T> v;
  TokenRows<T> y;
  std::vector<float> scale;
  bool scaled;
  DeviceArray<float> feature_scale;
  DeviceArray<float> global;
  DeviceArray<float> sum;
  DeviceArray<unsigned char> workspace;

  explicit Batch(const Case& c)
      : shape{c.images, c.tokens, c.queries < 0 ? c.tokens : c.queries,
              c.dim,    c.kernel, {2, 0.5, 1.25}},
        q(c.images, shape.queries, c.dim, Layout::packed, c.how, 1),
        k(c.images, c.tokens, c.dim, Layout::packed, c.how, 2),
        v(c.images, c.tokens, c.dim, Layout::packed, c.how, 3),
        y(c.images, shape.queries, c.dim, Layout::packed),
        scale(scale_values(c.dim)),
        scaled(c.scaled),
        feature_scale(scale),
        global(static_cast<std::size_t>(c.images * c.dim)),
        sum(global.size()),
        workspace(fresh_workspace(shape)) {}

  /// Zero where it must be, NaN elsewhere.
  static std::vector<unsigned char> fresh_workspace(const hydra::cuda::Shape& shape) {
    std::vector<unsigned char> bytes(hydra::cuda::workspace_bytes(shape), 0xFF);
    std::fill_n(bytes.begin(), hydra::cuda::workspace_zero_bytes(shape), 0);
    return bytes;
  }

  /// One of them zero: g / feature_scale is not c.
  static std::vector<float> scale_values(std::int64_t dim) {
    std::vector<float> values(static_cast<std::size_t>(dim));
    fill(values, Fill::normal, 5);
    values[values.size() / 2] = 0;
    return values;
  }

  hydra::cuda::ForwardParams<T> forward_params() {
    return {shape,
            q.read(),
            k.read(),
            v.read(),
            scaled ? feature_scale.data() : nullptr,
            global.data(),
            y.write(),
            workspace.data(),
            sum.data()};
  }
  void forward() {
    hydra::cuda::forward(forward_params(), nullptr);
    y.download();
  }
  hydra::Tokens<T> image(std::int64_t b) const {
    return {q.host_of(b), q.stride(),   shape.queries, k.host_of(b),
            k.stride(),   v.host_of(b), v.stride(),    shape.tokens,
            shape.dim,    shape.kernel, shape.weights, scaled ? scale.data() : nullptr};
  }

  void expect_vector(const DeviceArray<float>& found, std::int64_t b, const twin::Sums& expected,
                     const std::string& what) const {
    ASSERT_TRUE(found.intact()) << what;
    const std::vector<float> values = found.download();
    for (std::size_t f = 0; f < expected.values.size(); ++f) {
      const double value = values[static_cast<std::size_t>(b * shape.dim) + f];
      ASSERT_LE(std::abs(value - expected.values[f]), kOfSums * expected.magnitudes[f] + 1e-30)
          << what << " of image " << b << ", column " << f << ": found " << value << ", expected "
          << expected.values[f];
    }
  }
  void expect_forward() {
    for (std::int64_t b = 0; b < shape.images; ++b) {
      const hydra::ForwardResult expected = hydra::forward_reference(image(b));
      expect_vector(sum, b, expected.sum, "sum");
      expect_vector(global, b, expected.global, "global");
      y.expect(b, expected.y, kOfSums, "y");
    }
    expect_counters_at_zero();
  }
  void expect_counters_at_zero() const {
    ASSERT_TRUE(workspace.intact());
    const auto bytes = workspace.download();
    const auto counters =
        static_cast<std::size_t>(shape.images * (hydra::cuda::project_groups(shape.tokens) + 1));
    ASSERT_TRUE(std::all_of(bytes.begin(),
                            bytes.begin() + static_cast<std::ptrdiff_t>(4 * counters),
                            [](unsigned char byte) { return byte == 0; }));
  }
};

std::string text(const Case& c) {
  return std::to_string(c.images) + " images of " + std::to_string(c.tokens) + " tokens of " +
         std::to_string(c.dim) + ", fill " + std::to_string(static_cast<int>(c.how)) + ", norms " +
         std::to_string(static_cast<int>(c.kernel.query.norm)) + " " +
         std::to_string(static_cast<int>(c.kernel.key.norm)) + ", eps " +
         std::to_string(c.kernel.query.eps);
}

template <class T>
void compare(const Case& c) {
  SCOPED_TRACE(text(c));
  Batch<T> batch(c);
  batch.forward();
  batch.expect_forward();
}

TYPED_TEST(HydraCuda, EqualsTheTwinForEveryNumberOfTokens) {
  for_each_schedule([] {
    for (const std::int64_t tokens : {0, 1, 2, 31, 32, 33})
      compare<TypeParam>({.images = 2, .tokens = tokens});
  });
  for (const std::int64_t tokens : {196, 197, 198, 577})
    compare<TypeParam>({.tokens = tokens, .dim = 16});
  if (sizeof(TypeParam) == 4) compare<TypeParam>({.tokens = 8195, .dim = 4});  // shares of 64
}

TYPED_TEST(HydraCuda, EqualsTheTwinForEveryDim) {
  // Every number of packs, full and not.
  for (const std::int64_t dim :
       {8, 128, 136, 256, 264, 384, 400, 512, 768, 776, 1024, 1160, 1408, 1536})
    if (hydra::cuda::serves<TypeParam>(dim)) compare<TypeParam>({.tokens = 19, .dim = dim});
}

TYPED_TEST(HydraCuda, EqualsTheTwinForEveryNormAndEps) {
  for (const Norm norm_q : {Norm::l2, Norm::l1, Norm::none})
    for (const Norm norm_k : {Norm::l2, Norm::l1, Norm::none})
      // 0: what is read in place of rows behind the last has no 1 / r. 5: above all l2 norms.
      for (const float eps : {0.0F, 1e-6F, 5.0F})
        compare<TypeParam>({.tokens = 3, .dim = 16, .kernel = {{norm_q, eps}, {norm_k, eps}}});
}

TYPED_TEST(HydraCuda, EqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills)
    for (const bool scaled : {false, true})
      compare<TypeParam>({.tokens = 13,
                          .dim = 40,
                          .how = how,
                          .kernel = {{Norm::l2}, {Norm::l1}},
                          .scaled = scaled});
}

TYPED_TEST(HydraCuda, TokensWithoutAQueryAreSummedAllTheSame) {
  for (const std::int64_t queries : {0, 1, 3, 33})
    compare<TypeParam>({.images = 2, .tokens = 37, .dim = 24, .queries = queries});
}

TYPED_TEST(HydraCuda, WritesTheEmptySumOfNoTokens) {
  Batch<TypeParam> batch({.images = 3, .tokens = 0, .scaled = false});
  batch.forward();
  for (const float g : batch.global.download()) EXPECT_EQ(g, 0.0F);
  Batch<TypeParam> none({.images = 0, .tokens = 4});
  none.forward();
}

/// The result of image b.
template <class T>
std::vector<T> result(Batch<T>& batch, std::int64_t b = 0) {
  batch.forward();
  return batch.y.values(b, 1);
}

TYPED_TEST(HydraCuda, ABatchGivesTheBitsOfItsImagesAlone) {
  constexpr std::int64_t kImages = 3;
  Batch<TypeParam> batch({.images = kImages, .tokens = 131, .dim = 40});
  for (std::int64_t b = 0; b < kImages; ++b) {
    Batch<TypeParam> one({.images = 1, .tokens = 131, .dim = 40});
    for (const auto rows : {&Batch<TypeParam>::q, &Batch<TypeParam>::k, &Batch<TypeParam>::v})
      (one.*rows).take(batch.*rows, b);
    EXPECT_TRUE(same_bits(result(one), result(batch, b)));
    const auto globals = batch.global.download();
    EXPECT_TRUE(
        same_bits(one.global.download(),
                  std::vector<float>(globals.begin() + b * 40, globals.begin() + (b + 1) * 40)));
  }
}

TYPED_TEST(HydraCuda, EveryRunAndScheduleGivesTheSameBits) {
  Batch<TypeParam> batch({.images = 1, .tokens = 545, .dim = 16});
  const auto first = result(batch);
  const auto global = batch.global.download();
  for_each_schedule([&] {
    EXPECT_TRUE(same_bits(result(batch), first));
    EXPECT_TRUE(same_bits(global, batch.global.download()));
  });
}

TYPED_TEST(HydraCuda, NanOfAQueryStaysInItsRowAndNanOfAKeyIsEverywhere) {
  Batch<TypeParam> batch({.images = 2, .tokens = 35, .dim = 24});
  batch.q.at(1, 33, 23) = TokenRows<TypeParam>::nan();
  batch.q.upload();
  batch.v.at(0, 34, 7) = TokenRows<TypeParam>::nan();
  batch.v.upload();
  batch.forward();
  const auto nan_at = [&](std::int64_t b, std::int64_t t, std::int64_t f) {
    return std::isnan(static_cast<float>(batch.y.at(b, t, f)));
  };
  for (std::int64_t t = 0; t < 35; ++t)
    for (std::int64_t f = 0; f < 24; ++f) {
      ASSERT_EQ(nan_at(1, t, f), t == 33);
      ASSERT_EQ(nan_at(0, t, f), f == 7);
    }
  batch.k.at(0, 2, 3) = TokenRows<TypeParam>::nan();
  batch.k.upload();
  batch.forward();
  for (const std::int64_t f : {0, 23}) ASSERT_TRUE(nan_at(0, 34, f) && !nan_at(1, 0, f));
}

TYPED_TEST(HydraCuda, YMayLieInThePlaceOfQ) {
  Batch<TypeParam> batch({.tokens = 67});
  batch.forward();
  auto params = batch.forward_params();
  params.y = batch.q.write();
  hydra::cuda::forward(params, nullptr);
  batch.q.download();
  EXPECT_TRUE(same_bits(batch.q.host(), batch.y.host()));
}

TYPED_TEST(HydraCuda, RefusesWhatItCannotDo) {
  Batch<TypeParam> batch({.tokens = 4});
  const auto refused = [&](auto change) {
    auto params = batch.forward_params();
    change(params);
    EXPECT_THROW(hydra::cuda::forward(params, nullptr), Error);
  };
  refused([](auto& p) { p.shape.queries = 5; });
  refused([](auto& p) { p.shape.dim = 62; });    // no whole packs
  refused([](auto& p) { p.shape.dim = 1544; });  // more than a warp holds
  refused([](auto& p) { ++p.q.stride; });
  refused([](auto& p) { ++p.y.data; });
  refused([](auto& p) { p.workspace = nullptr; });
}

TEST(HydraGeometry, SplitsCoverTheTokensAndFillTheTree) {
  using namespace hydra::cuda;
  for (const std::int64_t tokens :
       {0, 1, 31, 32, 33, 197, 512, 513, 8161, 8192, 8193, 32401, 1000003}) {
    const std::int64_t share = project_share(tokens);
    const std::int64_t splits = project_splits(tokens);
    EXPECT_GE(splits * share, tokens);
    EXPECT_LT((splits - 1) * share, std::max<std::int64_t>(tokens, 1));
    EXPECT_EQ(share % kShare, 0);
    EXPECT_LE(project_groups(tokens), kGroup);
    EXPECT_EQ(device::illegal(project_geometry(64, tokens)), "");
    const WorkspaceLayout layout = workspace_layout(3, tokens, 77);
    EXPECT_GE(layout.partial, static_cast<std::size_t>(3 * (project_groups(tokens) + 1) * 4));
    EXPECT_EQ(layout.partial % 256, 0U);
    EXPECT_GE(layout.bytes - layout.partial, static_cast<std::size_t>(3 * splits * 77 * 4));
  }
}

template <class T>
void expect_packs_to_hold_rows(std::int64_t longest) {
  constexpr std::int64_t kWidth = 16 / sizeof(T);
  for (std::int64_t dim = 1; dim <= 2048; ++dim) {
    const int packs = hydra::cuda::packs_of<T>(dim);
    EXPECT_EQ(packs > 0, dim % kWidth == 0 && dim <= longest) << dim;
    EXPECT_TRUE(packs == 0 || packs * 32 * kWidth >= dim) << dim;
  }
}
TEST(HydraGeometry, PacksHoldTheRow) {
  expect_packs_to_hold_rows<float>(1024);
  expect_packs_to_hold_rows<BFloat16>(1536);
}

}  // namespace hydra_cuda_test
}  // namespace hydrascope::kernels::test
