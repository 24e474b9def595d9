#include "kernels/device/cpu_ceiling.h"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/device/cpu_ceiling.cpp"
// clang-format off: the first include repeats the rest of the file.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/amx/amx_tiles.h"
#include "kernels/amx/tile_product.h"
#include "kernels/device/matrix_instructions.h"
#include "kernels/quantised_linear/integer_product-inl.h"
#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

// Sums that do not wait for each other: enough for two units of a latency of five.
constexpr int kChains = HYDRASCOPE_HAS_AVX512 ? 24 : 12;

/// A value of which the compiler knows nothing: it neither joins equal chains or products nor takes a
/// product that does not change out of the loop.
template <class V>
HWY_INLINE void renew(V& v) {
#if HWY_TARGET == HWY_SCALAR
  asm volatile("" : "+m"(v.raw));
#elif HWY_ARCH_X86
  asm volatile("" : "+v"(v.raw));
#else
  asm volatile("" : "+w"(v.raw));
#endif
}

/// `steps` products of each chain. Operations of a step, of which a lane does `operations`.
template <class D, class Multiply>
HWY_INLINE double run_chains(D d, std::int64_t steps, double operations, Multiply multiply) {
  using V = hn::Vec<D>;
  const std::size_t n = hn::Lanes(d);
  V sums[kChains];
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) {
    sums[i] = hn::Zero(d);
    renew(sums[i]);  // chains that begin alike would be one
  }
  V a = hn::Zero(d);
  const V b = hn::Zero(d);
  for (std::int64_t step = 0; step < steps; ++step) {
    HWY_UNROLL(24)
    for (int i = 0; i < kChains; ++i) {
      renew(a);
      sums[i] = multiply(sums[i], a, b);
    }
  }
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) renew(sums[i]);  // nothing is done for no result
  return operations * kChains * static_cast<double>(n);
}

double float_products(std::int64_t steps) {
  return run_chains(F32(), steps, 2,
                    [](VecF32 sum, VecF32 a, VecF32 b) { return hn::MulAdd(a, b, sum); });
}

#if HYDRASCOPE_HAS_AVX512
template <class Dot>
double tile_products(std::int64_t steps, Dot dot) {
  amx::AmxTiles tiles;
  const amx::TileSession<amx::AmxTiles> session(tiles, amx::kTileRows);
  tiles.zero(amx::kFirstA);
  tiles.zero(amx::kFirstB);
  tiles.zero(amx::kSum0);
  tiles.zero(amx::kSum1);
  tiles.zero(amx::kSum2);
  tiles.zero(amx::kSum3);
  for (std::int64_t step = 0; step < steps; ++step) {
    dot(tiles, amx::kSum0);
    dot(tiles, amx::kSum1);
    dot(tiles, amx::kSum2);
    dot(tiles, amx::kSum3);
  }
  return 4 * 2.0 * amx::kTileRows * amx::kTileRows;  // times the depth of a step
}

__attribute__((target("avx512bf16"))) double bfloat16_pairs(std::int64_t steps) {
  __m512 sums[kChains];
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) {
    sums[i] = _mm512_setzero_ps();
    asm volatile("" : "+v"(sums[i]));  // chains that begin alike would be one
  }
  __m512i a = _mm512_setzero_si512();
  const __m512i b = _mm512_set1_epi16(1);
  for (std::int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(a));
    HWY_UNROLL(24)
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)a, (__m512bh)b);
  }
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sums[i]));
  return 2 * 2.0 * 16 * kChains;
}
#endif

double bfloat16_products(std::int64_t steps) {
#if HYDRASCOPE_HAS_AVX512
  if (device::may_use(device::MatrixInstruction::amx_bf16))
    return static_cast<double>(amx::kBfloat16StepDepth) *
           tile_products(steps, [](amx::AmxTiles& tiles, auto sum) {
             tiles.dot_bfloat16(sum, amx::kFirstA, amx::kFirstB);
           });
  if (device::may_use(device::MatrixInstruction::avx512_bf16)) return bfloat16_pairs(steps);
#endif
  return float_products(steps);
}

#if HWY_TARGET == HWY_SCALAR
double int8_products(std::int64_t steps) {
  return run_chains(hn::ScalableTag<std::int32_t>(), steps, 2,
                    [](auto sum, auto a, auto b) { return hn::Add(sum, hn::Mul(a, b)); });
}
#elif !HYDRASCOPE_MULTIPLIES_BYTES
/// The lower half of a product of words: one instruction.
double int8_products(std::int64_t steps) {
  return run_chains(I32(), steps, 2, [](VecI32 sum, VecI32 a, VecI32 b) {
    const hn::ScalableTag<std::int16_t> d16;
    VecI32 unused = sum;
    return hn::ReorderWidenMulAccumulate(I32(), hn::BitCast(d16, a), hn::BitCast(d16, b), sum,
                                         unused);
  });
}
#else
HYDRASCOPE_VNNI double byte_quads(std::int64_t steps) {
  const I32 d;
  VecI32 sums[kChains];
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) {
    sums[i] = hn::Zero(d);
    renew(sums[i]);
  }
  VecI32 a = hn::Zero(d);
  const VecI32 b = a;
  for (std::int64_t step = 0; step < steps; ++step) {
    renew(a);
    HWY_UNROLL(24)
    for (int i = 0; i < kChains; ++i) sums[i] = dot_bytes(sums[i], a, b);
  }
  HWY_UNROLL(24)
  for (int i = 0; i < kChains; ++i) renew(sums[i]);
  return 2 * 4.0 * kChains * static_cast<double>(hn::Lanes(d));
}

double int8_products(std::int64_t steps) {
#if HYDRASCOPE_HAS_AVX512
  if (device::may_use(device::MatrixInstruction::amx_int8))
    return static_cast<double>(amx::kInt8StepDepth) *
           tile_products(steps, [](amx::AmxTiles& tiles, auto sum) {
             tiles.dot_uint8_int8(sum, amx::kFirstA, amx::kFirstB);
           });
#endif
  if (multiplies_bytes()) return byte_quads(steps);
  // The instructions of quantised_linear's pairs.
  return run_chains(I32(), steps, 2 * 4, [](VecI32 sum, VecI32 a, VecI32) {
    alignas(64) static constexpr std::int8_t kWeights[4 * hn::MaxLanes(I32())] = {};
    VecI32 unused = sum;
    return hn::ReorderWidenMulAccumulate(I32(), dot_pairs(a, kWeights),
                                         hn::Set(hn::ScalableTag<std::int16_t>(), 1), sum, unused);
  });
}
#endif

/// Reads `count` numbers, whole lines of 16 vectors.
float read_numbers(const float* p, std::size_t count) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  constexpr int kReads = 8;
  VecF32 sums[kReads];
  for (int i = 0; i < kReads; ++i) sums[i] = hn::Zero(d);
  for (std::size_t at = 0; at + kReads * n <= count; at += kReads * n)
    for (int i = 0; i < kReads; ++i)
      sums[i] = hn::Add(sums[i], hn::LoadU(d, p + at + static_cast<std::size_t>(i) * n));
  for (int i = 1; i < kReads; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  return sum_of_lanes(sums[0]);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/device/cpu_features.h"
#include "kernels/device/processors.h"
#include "kernels/stopwatch.h"
#include "kernels/vector/aligned_buffer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace hydrascope::kernels::device {
namespace {

HWY_EXPORT(float_products);
HWY_EXPORT(bfloat16_products);
HWY_EXPORT(int8_products);
HWY_EXPORT(read_numbers);

constexpr double kShortestRound = 2e-3;  // seconds: far above the time that threads take to meet
constexpr double kTurn = 25e-3;          // seconds
constexpr int kMostTurns = 12;
constexpr int kTurnsWithoutRise = 3;
constexpr double kRise = 1.01;

/// A round of the thread at `place`; returns its operations or bytes.
using Work = std::function<double(std::int64_t place)>;

/// A rate of `threads` threads of a team at once, in turns with other rates.
class Rate {
 public:
  Rate(ThreadTeam& team, int threads, Work work)
      : team_(team), threads_(threads), work_(std::move(work)) {}

  [[nodiscard]] bool has_settled() const { return turns_without_rise_ >= kTurnsWithoutRise; }
  /// The rate beside the same rate of one thread alone, if that was measured.
  [[nodiscard]] CpuRate beside(const Rate* alone) const {
    const double expected = alone == nullptr ? 0 : std::min(threads_, cores_) * alone->best_;
    return {best_, is_disturbed(rounds_, expected)};
  }

  void take_turn() {
    const double before = best_;
    const Clock::time_point begin = Clock::now();
    do {
      take_round();
    } while (seconds_since(begin) < kTurn);
    turns_without_rise_ = best_ > kRise * before ? 0 : turns_without_rise_ + 1;
  }

 private:
  void take_round() {
    std::vector<double> done(static_cast<std::size_t>(threads_), 0.0);
    const Clock::time_point begin = Clock::now();
    team_.run(threads_,
              [&](std::int64_t item, int) { done[static_cast<std::size_t>(item)] = work_(item); });
    const double seconds = seconds_since(begin);
    rounds_.push_back(std::accumulate(done.begin(), done.end(), 0.0) / seconds);
    best_ = std::max(best_, rounds_.back());
  }

  ThreadTeam& team_;
  int threads_;
  Work work_;
  int cores_ = processors().usable_cores();
  std::vector<double> rounds_;
  double best_ = 0;
  int turns_without_rise_ = 0;
};

/// Products with as many steps as a round needs.
template <class Products>
Work product_work(Products products) {
  std::int64_t steps = 1000;
  for (;; steps *= 2) {
    const Clock::time_point begin = Clock::now();
    products(steps);
    if (seconds_since(begin) >= kShortestRound) break;
  }
  return [=](std::int64_t) { return products(steps) * static_cast<double>(steps); };
}

/// The sum must be wanted by somebody.
void want(float value) {
  static std::atomic<float> last{0};
  last.store(value, std::memory_order_relaxed);
}

/// Numbers of which each thread reads `count` of its own, `times` times a round.
struct Numbers {
  AlignedBuffer<float> values;
  std::size_t count;
  int times;

  Numbers(ThreadTeam& team, std::int64_t bytes_of_thread, int times_a_round)
      : values(numbers_in(bytes_of_thread) * static_cast<std::size_t>(team.size())),
        count(numbers_in(bytes_of_thread)),
        times(times_a_round) {
    team.run(team.size(), [&](std::int64_t place, int) { std::fill_n(of(place), count, 0.0F); });
  }
  /// Whole steps of read_numbers.
  static std::size_t numbers_in(std::int64_t bytes) {
    constexpr std::size_t kStep = 256;
    return std::max<std::size_t>(1, static_cast<std::size_t>(bytes) / sizeof(float) / kStep) *
           kStep;
  }
  float* of(std::int64_t place) { return values.data() + static_cast<std::size_t>(place) * count; }
  [[nodiscard]] Work work() {
    return [this](std::int64_t place) {
      for (int i = 0; i < times; ++i) want(HWY_DYNAMIC_DISPATCH(read_numbers)(of(place), count));
      return static_cast<double>(times) * static_cast<double>(count * sizeof(float));
    };
  }
};

std::int64_t bytes_beyond_caches() {
  constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
  constexpr std::int64_t kTimesTheCaches = 4;
  return std::clamp(kTimesTheCaches * shared_caches().value_or(0), 64 * kMegabyte,
                    1024 * kMegabyte);
}

}  // namespace

bool is_disturbed(std::span<const double> rounds, double expected) {
  constexpr double kLeastMedian = 0.85;
  constexpr double kLeastOfExpected = 0.6;
  std::vector<double> sorted(rounds.begin(), rounds.end());
  std::ranges::sort(sorted);
  const double best = sorted.back();
  return sorted[sorted.size() / 2] < kLeastMedian * best || best < kLeastOfExpected * expected;
}

CpuCeiling measure_ceiling(ThreadTeam& team) {
  constexpr int kReadsOfL2 = 256;  // the first of them fills the cache
  Numbers in_l2(team, cache_sizes().l2_bytes / 2, kReadsOfL2);
  Numbers in_memory(team, bytes_beyond_caches() / team.size(), 1);
  const Work works[] = {
      product_work([](std::int64_t n) { return HWY_DYNAMIC_DISPATCH(float_products)(n); }),
      product_work([](std::int64_t n) { return HWY_DYNAMIC_DISPATCH(bfloat16_products)(n); }),
      product_work([](std::int64_t n) { return HWY_DYNAMIC_DISPATCH(int8_products)(n); }),
      in_l2.work(), in_memory.work()};
  std::vector<Rate> rates;
  for (const Work& work : works) rates.emplace_back(team, team.size(), work);
  // Beside them one thread's own, but for memory.
  if (team.size() > 1)
    for (const Work& work : std::span(works).first<4>()) rates.emplace_back(team, 1, work);
  const auto found = [&](std::size_t i) {
    const std::size_t alone = std::size(works) + i;
    return rates[i].beside(alone < rates.size() ? &rates[alone] : nullptr);
  };
  for (int turn = 0; turn < kMostTurns; ++turn)
    for (std::size_t i = 0; i < rates.size(); ++i)
      if (!rates[i].has_settled() || found(i).disturbed) rates[i].take_turn();
  return {team.size(), found(0), found(1), found(2), found(3), found(4)};
}

}  // namespace hydrascope::kernels::device
#endif  // HWY_ONCE
