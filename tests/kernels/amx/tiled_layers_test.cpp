// Whole layers on emulated tiles: the cutting of rows, tails, the session and the epilogue are the code
// that runs on AMX, instantiated with the other Tiles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/amx/tiled_layers_test.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/linear/tiled_linear-inl.h"
#include "kernels/quantised_linear/tiled_quantised_linear-inl.h"
#include "tests/kernels/amx/emulated_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void emulated_linear(amx::EmulatedTiles& tiles, const linear::LinearParams<BFloat16>& p) {
  tiled_linear(tiles, p);
}
void emulated_quantised_float32(amx::EmulatedTiles& tiles,
                                const quantised_linear::LinearParams<float>& p) {
  tiled_quantised_linear(tiles, p);
}
void emulated_quantised_bfloat16(amx::EmulatedTiles& tiles,
                                 const quantised_linear::LinearParams<BFloat16>& p) {
  tiled_quantised_linear(tiles, p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/linear/linear_layer.h"
#include "tests/kernels/linear/linear_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace hydrascope::kernels {
HWY_EXPORT(emulated_linear);
HWY_EXPORT(emulated_quantised_float32);
HWY_EXPORT(emulated_quantised_bfloat16);

namespace test {
namespace tiled_layers_test {

namespace ql = quantised_linear;
using amx::EmulatedTiles;
using linear::Epilogue;

void run(EmulatedTiles& tiles, const linear::LinearParams<BFloat16>& p) {
  HWY_DYNAMIC_DISPATCH(emulated_linear)(tiles, p);
}
void run(EmulatedTiles& tiles, const ql::LinearParams<float>& p) {
  HWY_DYNAMIC_DISPATCH(emulated_quantised_float32)(tiles, p);
}
void run(EmulatedTiles& tiles, const ql::LinearParams<BFloat16>& p) {
  HWY_DYNAMIC_DISPATCH(emulated_quantised_bfloat16)(tiles, p);
}

/// Brings `steps` of each of a weight's panels into the order of tiles, as packing does on a processor
/// with AMX.
void order_as_tiles(const void* panels, std::int64_t bytes, std::int64_t out, std::int64_t steps) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(panels));
  const std::int64_t count = linear::panels_of(out);
  for (std::int64_t panel = 0; panel < count; ++panel)
    amx::order_as_tiles(first + panel * (bytes / count), steps);
}

struct Layer : LinearLayer<BFloat16> {
  Layer(std::int64_t num_rows, std::int64_t in, std::int64_t out, Fill how = Fill::normal)
      : LinearLayer(num_rows, in, out, how, linear::Form::panels) {
    order_as_tiles(packed.panel<BFloat16>(0), static_cast<std::int64_t>(packed.bytes()), out,
                   in / amx::kBfloat16StepDepth);
  }
  /// x and the panels, and nothing else, may be read.
  void restrict(EmulatedTiles& tiles) const {
    if (rows > 0)
      tiles.allow_reading(x.data(), static_cast<std::size_t>((rows - 1) * x.stride + x.dim) * 2);
    tiles.allow_reading(packed.panel<BFloat16>(0), packed.bytes());
  }
};

void compare(std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue, Fill how) {
  Layer layer(rows, in, out, how);
  const linear::LinearParams<BFloat16> params = layer.params(epilogue);
  const std::vector<double> expected = linear::linear_reference(params, layer.weight);
  EmulatedTiles tiles;
  layer.restrict(tiles);
  run(tiles, params);
  EXPECT_FALSE(tiles.configured());
  EXPECT_EQ(tiles.counts().configure, rows == 0 ? 0 : 1);
  EXPECT_EQ(tiles.counts().release, rows == 0 ? 0 : 1);
  if (rows > 0) expect_rows(layer.y, expected, rounding<BFloat16>(), 2e-5, layer.name());
  EXPECT_TRUE(layer.y.intact());
}

TEST(TiledLinear, EqualsTheNaiveProductOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : {0, 1, 2, 15, 16, 17, 31, 32, 33, 49})
      for (const auto& [in, out] :
           {std::pair<std::int64_t, std::int64_t>{64, 64}, {108, 100}, {32, 130}, {33, 1}})
        compare(rows, in, out, static_cast<Epilogue>(rows % 3), Fill::normal);
    for (const Epilogue epilogue : {Epilogue::store, Epilogue::gelu, Epilogue::add})
      compare(40, 64, 65, epilogue, Fill::normal);
  });
  for (const std::int64_t rows : {197, 198, 577})
    compare(rows, 77, 65, Epilogue::add, Fill::normal);
  compare(70, 781, 97, Epilogue::store, Fill::normal);  // several blocks, and more than 6 pairs
  compare(230, 300, 33, Epilogue::gelu, Fill::normal);
}

TEST(TiledLinear, EqualsTheNaiveProductOnEveryKindOfInput) {
  for (const Fill how : kAllFills) compare(29, 77, 65, Epilogue::store, how);
}

TEST(TiledLinear, ARowIsRoundedTheSameWhereverTheCutsFall) {
  constexpr std::int64_t kRows = 101;
  Layer whole(kRows, 77, 65);
  linear::LinearParams<BFloat16> params = whole.params(Epilogue::store);
  EmulatedTiles tiles;
  run(tiles, params);
  for (const std::int64_t tile : {1, 6, 16, 30, 48}) {
    Layer parts(kRows, 77, 65);
    for (std::int64_t row = 0; row < kRows; row += tile) {
      linear::LinearParams<BFloat16> part = parts.params(Epilogue::store);
      part.x += row * part.x_stride;
      part.y += row * part.y_stride;
      part.rows = std::min(tile, kRows - row);
      run(tiles, part);
    }
    for (std::size_t i = 0; i < whole.y.values.size(); ++i)
      ASSERT_EQ(whole.y.values[i].bits, parts.y.values[i].bits) << "tiles of " << tile;
  }
}

TEST(TiledLinear, NanReachesItsRowOnly) {
  for (const std::int64_t bad : {0, 15, 16, 31, 32, 36}) {
    Layer layer(37, 70, 64);
    layer.x.at(bad, 69) = BFloat16(std::nanf(""));
    EmulatedTiles tiles;
    run(tiles, layer.params(Epilogue::gelu));
    for (std::int64_t r = 0; r < 37; ++r) ASSERT_EQ(layer.y.is_nan(r, 0), r == bad);
  }
}

TEST(TiledLinear, TilesAreReleasedAfterAFaultToo) {
  Layer layer(37, 70, 64);
  linear::LinearParams<BFloat16> params = layer.params(Epilogue::store);
  ++params.rows;  // one more than there are
  EmulatedTiles tiles;
  layer.restrict(tiles);
  EXPECT_THROW(run(tiles, params), amx::TileFault);
  EXPECT_FALSE(tiles.configured());
}

template <class T>
class TiledQuantisedLinear : public ::testing::Test {};
TYPED_TEST_SUITE(TiledQuantisedLinear, CpuTypes);

/// Integer sums are exact: not a bit may differ from the strips of the same instruction set.
TYPED_TEST(TiledQuantisedLinear, EqualsTheStripsBitForBit) {
  using T = TypeParam;
  const auto compare = [](std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
    const std::vector<float> weight = random_weight<BFloat16>(out, in);
    const ql::QuantisedWeight panels(weight.data(), out, in, in, ql::WeightForm::quads);
    const ql::QuantisedWeight packed(weight.data(), out, in, in, ql::WeightForm::quads);
    const std::int64_t bytes = linear::panels_of(out) * linear::kPanelColumns * ql::row_bytes(in);
    order_as_tiles(packed.panel(0), bytes, out, ql::row_bytes(in) / amx::kInt8StepDepth);
    Guarded<float> bias(static_cast<std::size_t>(out));
    fill(bias, Fill::normal, 2);
    std::vector<T> x(static_cast<std::size_t>(rows * in));
    fill(x, Fill::normal, 3);
    AlignedBuffer<std::uint8_t> values(static_cast<std::size_t>(rows * ql::row_bytes(in)));
    Guarded<float> scale(static_cast<std::size_t>(rows));
    Guarded<float> least(static_cast<std::size_t>(rows));
    const ql::Rows quantised{values.data(), scale.data(), least.data()};
    ql::quantise(ql::QuantiseParams<T>{x.data(), in, rows, in, nullptr, quantised});
    const std::int64_t stride = out + 3;
    Guarded<T> expected(static_cast<std::size_t>(rows * stride));
    for (std::int64_t r = 0; r < rows; ++r)
      std::fill_n(expected.begin() + r * stride, out, T(0.5F));
    Guarded<T> found = expected;
    ql::LinearParams<T> p{quantised, rows, &panels, bias.data(), expected.data(), stride, epilogue};
    ql::linear(p);
    p.y = found.data();
    p.weight = &packed;
    EmulatedTiles tiles;
    tiles.allow_reading(values.data(), values.size());
    tiles.allow_reading(packed.panel(0), static_cast<std::size_t>(bytes));
    run(tiles, p);
    EXPECT_FALSE(tiles.configured());
    EXPECT_EQ(tiles.counts().release, rows == 0 ? 0 : 1);
    EXPECT_TRUE(found.intact());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)), 0);
  };
  for_each_instruction_set([&] {
    for (const std::int64_t rows : {0, 1, 15, 16, 17, 33})
      for (const auto& [in, out] :
           {std::pair<std::int64_t, std::int64_t>{64, 64}, {130, 100}, {3, 1}})
        compare(rows, in, out, static_cast<Epilogue>(rows % 3));
    compare(49, 700, 70, Epilogue::add);
  });
}

}  // namespace tiled_layers_test
}  // namespace test
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
