// The traffic of kernels between global memory and multiprocessors, in sectors of 32 bytes that a warp's
// accesses by packs and copies touch, is what their headers state; and no sector is touched for a
// part of it. Accesses of one element (partial sums of Hydra, z and M of tensor cores) are not counted.
#include "kernels/device/vector_io.cuh"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "tests/emulator/small_kernels.h"
#include "tests/kernels/linear_attention/linear_attention_problem.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace hydrascope::kernels::test {
namespace traffic_test {

constexpr std::int64_t kSector = 32;

/// An array and the bytes of it that a kernel should ask for.
struct Array {
  const char* name;
  const void* first;
  std::int64_t bytes;
  std::int64_t read;
  std::int64_t written;
  /// Times that each of its sectors is touched: 2 where a lane reads 8 float32 values in two accesses;
  /// the second comes from L1.
  std::int64_t touches = 1;
};
template <class T>
Array whole(const char* name, const DeviceArray<T>& a, std::int64_t read, std::int64_t written = 0,
            std::int64_t touches = 1) {
  const auto bytes = static_cast<std::int64_t>(a.size() * sizeof(T));
  return {name, a.data(), bytes, read, written, touches};
}
/// Rows of one image, all of which are read and written so many times.
template <class T>
Array rows(const char* name, const TokenRows<T>& a, std::int64_t read, std::int64_t written) {
  const std::int64_t all = a.tokens() * a.dim() * static_cast<std::int64_t>(sizeof(T));
  return {name, a.data(), a.image_stride() * static_cast<std::int64_t>(sizeof(T)), read * all,
          written * all};
}

/// One access of a warp: the accesses of its lanes that are the same turn of their lane at one place.
struct WarpAccess {
  std::set<std::uintptr_t> sectors;
  std::set<std::uintptr_t> words;
};

template <class Body>
void expect_traffic(const std::vector<Array>& arrays, const Body& body) {
  using emulator::Access;
  emulator::watch_accesses(true);
  body();
  emulator::watch_accesses(false);
  const auto place = [](const Access& a) {
    return std::tuple(a.site.file_name(), a.site.line(), a.site.column(), a.writes, a.warp);
  };
  using Place = decltype(place(Access{}));
  std::map<std::pair<Place, int>, int> turns;  // of a lane
  std::map<std::pair<Place, int>, WarpAccess> of_warps;
  for (const Access& access : emulator::accesses()) {
    const int turn = turns[{place(access), access.lane}]++;
    WarpAccess& of_warp = of_warps[{place(access), turn}];
    const auto first = reinterpret_cast<std::uintptr_t>(access.at);
    for (std::uintptr_t at = first; at < first + static_cast<unsigned>(access.bytes); at += 4) {
      of_warp.sectors.insert(at / kSector);
      of_warp.words.insert(at / 4);
    }
  }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> moved;
  for (const auto& [where, access] : of_warps) {
    const auto& [file, line, column, writes, warp] = where.first;
    const std::uintptr_t first = *access.words.begin() * 4;
    const Array* of = nullptr;
    for (const Array& array : arrays)
      if (first - reinterpret_cast<std::uintptr_t>(array.first) <
          static_cast<std::uintptr_t>(array.bytes))
        of = &array;
    ASSERT_NE(of, nullptr) << file << ":" << line << " is at an unknown array";
    const auto bytes = static_cast<std::int64_t>(access.sectors.size()) * kSector;
    ASSERT_EQ(bytes, static_cast<std::int64_t>(access.words.size()) * 4 * of->touches)
        << of->name << ": bytes of sectors and bytes asked for at " << file << ":" << line;
    (writes ? moved[of->name].second : moved[of->name].first) += bytes;
  }
  for (const Array& array : arrays) {
    EXPECT_EQ(moved[array.name].first, array.read * array.touches) << array.name << ", read";
    EXPECT_EQ(moved[array.name].second, array.written * array.touches) << array.name << ", written";
  }
}

template <class T>
class Traffic : public ::testing::Test {};
TYPED_TEST_SUITE(Traffic, CpuTypes);

/// Touches of each sector where a lane has float32 numbers for a pack of T.
template <class T>
constexpr std::int64_t kTouches = sizeof(T) == 4 ? 1 : 2;

TYPED_TEST(Traffic, OfLayerNormIsTwoRows) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kDim = 768;
  const TokenRows<T> x(1, kRows, kDim, Layout::packed, Fill::normal, 1);
  TokenRows<T> y(1, kRows, kDim, Layout::packed);
  expect_traffic({rows("x", x, 1, 0), rows("y", y, 0, 1)}, [&] {
    layer_norm::cuda::layer_norm<T>(
        {x.data(), x.stride(), kRows, kDim, 1e-6F, y.data(), y.stride()}, nullptr);
  });
}

// 4 N D s; what each warp holds for all its rows comes from L1.
TYPED_TEST(Traffic, OfHydraIsEachRowOnce) {
  using T = TypeParam;
  constexpr std::int64_t kTokens = 64;
  constexpr std::int64_t kDim = 768;
  const hydra::cuda::Shape shape{1, kTokens, kTokens, kDim, {}, 1, 1, 1};
  const auto given = [&](unsigned seed) {
    return TokenRows<T>(1, kTokens, kDim, Layout::packed, Fill::normal, seed);
  };
  const TokenRows<T> q = given(1), k = given(2), v = given(3);
  TokenRows<T> y(1, kTokens, kDim, Layout::packed);
  DeviceArray<float> global(kDim);
  DeviceArray<unsigned char> workspace(
      std::vector<unsigned char>(hydra::cuda::workspace_bytes(shape)));
  // g once a warp of the gate.
  constexpr std::int64_t kGate =
      kTokens / hydra::cuda::kRowsOfBlock * hydra::cuda::kWarps * kDim * 4;
  expect_traffic({rows("q", q, 1, 0), rows("k", k, 1, 0), rows("v", v, 1, 0), rows("y", y, 0, 1),
                  whole("global", global, kGate, 0, kTouches<T>)},
                 [&] {
                   hydra::cuda::forward<T>({shape, q.read(), k.read(), v.read(), nullptr,
                                            global.data(), y.write(), workspace.data()},
                                           nullptr);
                 });
}

TYPED_TEST(Traffic, OfPatchifyIsPixelsAndPatches) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 2;
  constexpr std::int64_t kColumns = 20;
  constexpr std::int64_t kPixels = kRows * kColumns * 16 * 16;
  const DeviceArray<std::uint8_t> pixels(std::vector<std::uint8_t>(3 * kPixels));
  DeviceArray<T> y(3 * kPixels);
  const auto written = static_cast<std::int64_t>(3 * kPixels * sizeof(T));
  expect_traffic({whole("pixels", pixels, 3 * kPixels), whole("y", y, 0, written)}, [&] {
    patchify::cuda::from_pixels<T>({pixels.data(),
                                    kColumns * 48,
                                    3 * kPixels,
                                    1,
                                    kRows,
                                    kColumns,
                                    16,
                                    kRows * 16,
                                    kColumns * 16,
                                    {1, 1, 1},
                                    {},
                                    y.data()},
                                   nullptr);
  });
}

// Rows as the kernels' headers state them; S (F d 4 bytes) of each part of the tokens written and
// read again, the whole once written, and read once per block of rows.
TEST(TrafficOf, TensorCoresIsEachRowOnce) {
  using T = BFloat16;
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kTokens = 576;
  Problem<T> p(shape_of(Feature::exp_pair, kHeads, 64, 64), 1, kTokens);
  const std::int64_t sums = kHeads * p.shape.features() * 64 * 4;
  const std::int64_t parts = cuda::splits_of(kTokens, kHeads);
  ASSERT_EQ(parts, 2);
  const std::int64_t of_blocks = sums * cuda::rows_geometry(1, kHeads, kTokens).grid.x;
  DeviceArray<float> state(cuda::state_floats(p.shape, p.extent));
  DeviceArray<unsigned char> workspace(cuda::workspace_bytes(p.shape, p.extent));
  expect_traffic({rows("q", p.q, 1, 0), rows("k", p.k, 1, 0), rows("v", p.v, 1, 0),
                  rows("y", p.y, 0, 1), whole("state", state, of_blocks, sums),
                  whole("workspace", workspace, parts * sums, parts * sums)},
                 [&] {
                   cuda::forward<T>({p.shape, p.extent, p.q.read(), p.k.read(), p.v.read(),
                                     p.y.write(), state.data(), workspace.data()},
                                    nullptr);
                 });
}

/// A warp copies 32 packs that lie `step` packs apart, and reads the first two once more.
void copy_packs(unsigned step) {
  const DeviceArray<float> from(std::vector<float>(128 * step));
  DeviceArray<float> to(128);
  expect_traffic({whole("from", from, 512 + 16), whole("to", to, 0, 512)}, [&] {
    run({1}, {32}, [&] {
      device::store_global(to.data() + 4 * threadIdx.x,
                           device::load_pack<4>(from.data() + 4 * step * threadIdx.x));
      if (threadIdx.x < 2) device::load_pack<4>(from.data() + 4 * threadIdx.x);
    });
  });
}

TEST(TrafficOf, HalvesOfSectorsAndReadingTwiceAreReported) {
  EXPECT_FATAL_FAILURE(copy_packs(2), "bytes of sectors and bytes asked for");
  EXPECT_NONFATAL_FAILURE(copy_packs(1), "from, read");
}

}  // namespace traffic_test
}  // namespace hydrascope::kernels::test
