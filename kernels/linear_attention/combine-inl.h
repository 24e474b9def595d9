// The sums of all tiles as one state, brought to one maximum per feature:
//   M = max_i M_i    S = sum_i exp(M_i - M) S_i    z alike
// Tolerance and test: linear_attention.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_COMBINE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_COMBINE_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_COMBINE_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_COMBINE_INL_H
#endif

#include "kernels/linear_attention/feature_map-inl.h"
#include "kernels/linear_attention/layout.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// One head of all tiles.
struct HeadOfTiles {
  const linear_attention::Shape& shape;
  linear_attention::Sums<const float> first;
  std::int64_t size;  ///< floats from one tile to the next
  std::int64_t count;
  linear_attention::Sums<float> combined;  ///< receives the sums in float32, too; may be nulls
};

/// A vector's worth of features of one half.
struct FeatureRun {
  std::int64_t begin;
  std::int64_t count;  ///< from 0 to the lanes of a vector
};

HWY_INLINE FeatureRun run_of(std::int64_t begin, std::int64_t end) {
  const auto n = static_cast<std::int64_t>(lanes());
  const std::int64_t left = end - begin;
  return {begin, left < 0 ? 0 : left < n ? left : n};
}

HWY_INLINE VecF32 common_maximum(const HeadOfTiles& h, FeatureRun run) {
  VecF32 maximum = hn::Set(F32(), -kInfinity);
  for (std::int64_t i = 0; i < h.count; ++i)
    maximum = hn::Max(take(h.first.maximum + i * h.size + run.begin, run.count), maximum);
  return first_or(maximum, run.count, -kInfinity);
}

/// Adds columns of up to 64 of the run's rows, times their tile's factors, to `to` (lanes, 64).
HWY_INLINE void add_rows(const float* s, std::int64_t stride, FeatureRun run, std::int64_t columns,
                         const float* factors, float* to) {
  const auto n = static_cast<std::int64_t>(lanes());
  for (std::int64_t f = 0; f < run.count; ++f, s += stride, to += linear::kPanelColumns) {
    const VecF32 factor = hn::Set(F32(), factors[f]);
    for (std::int64_t c = 0; c < columns; c += n)
      store(hn::MulAdd(take(s + c, columns - c), factor, load(to + c)), to + c);
  }
}

/// `rows` is (2, lanes, 64): both halves of features.
HWY_INLINE void write_panel(const float* rows, std::int64_t at, std::int64_t stride, float* panel) {
  const auto n = static_cast<std::int64_t>(lanes());
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t i = 0; i < n * linear::kPanelColumns; i += n)
      store(load(rows + half * n * linear::kPanelColumns + i),
            panel + (half * stride + at) * linear::kPanelColumns + i);
}
HWY_INLINE void write_panel(const float* rows, std::int64_t at, std::int64_t, BFloat16* panel) {
  const U32 d;
  const auto n = static_cast<std::int64_t>(lanes());
  auto* to = reinterpret_cast<std::uint32_t*>(panel) + at * linear::kPanelColumns;
  for (std::int64_t i = 0; i < n * linear::kPanelColumns; i += n) {
    const VecU32 first = bfloat16_bits(load(rows + i));
    const VecU32 second = bfloat16_bits(load(rows + n * linear::kPanelColumns + i));
    hn::StoreU(hn::Or(first, hn::ShiftLeft<16>(second)), d, to + i);
  }
}

/// The features of both halves that lie at lanes `at` and after, of one head.
template <class T>
HWY_INLINE void combine_run(const HeadOfTiles& h, std::int64_t at, std::byte* state) {
  constexpr std::size_t kMaxLanes = hn::MaxLanes(F32());
  HWY_ALIGN float rows[2 * kMaxLanes * linear::kPanelColumns];
  HWY_ALIGN float factors[2][kMaxLanes];
  const F32 d;
  const auto n = static_cast<std::int64_t>(lanes());
  const linear_attention::HeadState<T> layout(h.shape);
  const linear_attention::Halves halves(h.shape);
  const bool exponential = linear_attention::is_exponential(h.shape.rule.feature);
  const std::int64_t head_dim = h.shape.head_dim;
  const FeatureRun runs[2] = {run_of(at, halves.half),
                              run_of(halves.half + at, h.shape.features())};
  VecF32 maximum[2];
  VecF32 z[2] = {hn::Zero(d), hn::Zero(d)};
  for (int half = 0; half < 2; ++half) maximum[half] = common_maximum(h, runs[half]);
  for (std::int64_t column = 0; column < head_dim; column += linear::kPanelColumns) {
    const std::int64_t columns = linear::panel_columns(column, head_dim);
    for (std::int64_t i = 0; i < 2 * n * linear::kPanelColumns; i += n)
      store(hn::Zero(d), rows + i);
    for (std::int64_t i = 0; i < h.count; ++i) {
      for (int half = 0; half < 2; ++half) {
        const FeatureRun run = runs[half];
        VecF32 factor = hn::Set(d, 1.0F);
        if (exponential) {
          const VecF32 of_tile = take(h.first.maximum + i * h.size + run.begin, run.count);
          factor = exp_f32(hn::Sub(of_tile, maximum[half]));
        }
        store(factor, factors[half]);
        if (column == 0) {
          const VecF32 of_tile = take(h.first.z + i * h.size + run.begin, run.count);
          z[half] = hn::MulAdd(of_tile, factor, z[half]);
        }
        add_rows(h.first.s + i * h.size + run.begin * head_dim + column, head_dim, run, columns,
                 factors[half], rows + half * n * linear::kPanelColumns);
      }
    }
    write_panel(rows, at, halves.stride,
                reinterpret_cast<T*>(state) + column / linear::kPanelColumns * layout.panel);
    if (h.combined.s == nullptr) continue;
    for (int half = 0; half < 2; ++half)
      for (std::int64_t f = 0; f < runs[half].count; ++f)
        for (std::int64_t c = 0; c < columns; c += n)
          give(load(rows + (half * n + f) * linear::kPanelColumns + c),
               h.combined.s + (runs[half].begin + f) * head_dim + column + c, columns - c);
  }
  auto* z_of_state = reinterpret_cast<float*>(state + layout.z);
  auto* maximum_of_state = reinterpret_cast<float*>(state + layout.maximum);
  for (int half = 0; half < 2; ++half) {
    const std::int64_t to = half * halves.stride + at;
    store(first_or(z[half], runs[half].count, 0), z_of_state + to);
    store(hn::Mul(maximum[half], hn::Set(d, kExponentUnit<T>)), maximum_of_state + to);
    if (h.combined.s == nullptr || runs[half].count == 0) continue;
    give(z[half], h.combined.z + runs[half].begin, runs[half].count);
    give(exponential ? maximum[half] : hn::Zero(d), h.combined.maximum + runs[half].begin,
         runs[half].count);
  }
}

template <class T>
void combine_heads(const linear_attention::CombineParams<T>& p) {
  const linear_attention::Shape& shape = p.shape;
  const linear_attention::HeadState<T> layout(shape);
  const std::int64_t stride = linear_attention::Halves(shape).stride;
  for (std::int64_t head = p.first_head; head < p.first_head + p.heads; ++head) {
    const HeadOfTiles h{shape, linear_attention::sums_of_head(shape, p.sums, head),
                        static_cast<std::int64_t>(linear_attention::sums_size(shape)), p.count,
                        p.combined.s == nullptr
                            ? p.combined
                            : linear_attention::from_head(shape, p.combined, head)};
    std::byte* of_head =
        static_cast<std::byte*>(p.state) + static_cast<std::size_t>(head) * layout.bytes;
    for (std::int64_t at = 0; at < stride; at += static_cast<std::int64_t>(lanes()))
      combine_run<T>(h, at, of_head);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
