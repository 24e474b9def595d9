#include "kernels/attention_map/attention_map.h"
#include "kernels/hydra/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_map/hydra_map.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/vector/pair-inl.h"

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using attention_map::HydraMeasure;

/// Rows a pass: w is read, and brought into the order of bfloat16 pairs, once for four rows. Their
/// eight chains of sums hide the latency of an addition and leave AVX2 registers for the operands.
constexpr int kHydraMapRows = 4;

/// The sums of one row, a lane's share each.
struct GivenSums {
  VecF32 norm;
  VecF32 given;
};

template <hydra::Norm kNorm, HydraMeasure kMeasure>
HWY_INLINE GivenSums add_given(VecF32 w, VecF32 k, VecF32 v, GivenSums sums) {
  if constexpr (kNorm == hydra::Norm::l2) sums.norm = hn::MulAdd(k, k, sums.norm);
  if constexpr (kNorm == hydra::Norm::l1) sums.norm = hn::Add(hn::Abs(k), sums.norm);
  const VecF32 product = hn::Mul(k, v);
  if constexpr (kMeasure == HydraMeasure::sum) {
    sums.given = hn::MulAdd(product, w, sums.given);
  } else {
    const VecF32 taken = hn::Mul(product, w);
    sums.given = hn::MulAdd(taken, taken, sums.given);
  }
  return sums;
}

/// The norm and the products of a row in one pass: 1 / r is a factor of the whole sum.
template <int kRows, hydra::Norm kNorm, HydraMeasure kMeasure, class T>
HWY_INLINE void hydra_map_rows(const attention_map::HydraMapParams<T>& p, std::int64_t row) {
  const F32 d;
  const std::size_t n = lanes();
  const auto dim = static_cast<std::size_t>(p.dim);
  const T* k = p.k + row * p.stride;
  const T* v = p.v + row * p.stride;
  GivenSums sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = {hn::Zero(d), hn::Zero(d)};
  std::size_t f = 0;
  for (; f + 2 * n <= dim; f += 2 * n) {
    const Pair w = load_pair_as<T>(p.weight + f);
    for (int r = 0; r < kRows; ++r) {
      const Pair of_k = load_pair(k + r * p.stride + f);
      const Pair of_v = load_pair(v + r * p.stride + f);
      sums[r] = add_given<kNorm, kMeasure>(w.first, of_k.first, of_v.first, sums[r]);
      sums[r] = add_given<kNorm, kMeasure>(w.second, of_k.second, of_v.second, sums[r]);
    }
  }
  for (; f < dim; f += n) {  // what fills no pair
    const std::size_t rest = dim - f;
    const bool whole = rest >= n;
    const VecF32 w = whole ? load(p.weight + f) : load_n(p.weight + f, rest);
    for (int r = 0; r < kRows; ++r) {
      const T* of_k = k + r * p.stride + f;
      const T* of_v = v + r * p.stride + f;
      sums[r] = add_given<kNorm, kMeasure>(w, whole ? load(of_k) : load_n(of_k, rest),
                                           whole ? load(of_v) : load_n(of_v, rest), sums[r]);
    }
  }
  const hydra::NormRule rule{kNorm, p.kernel.eps_rule, p.kernel.eps};
  for (int r = 0; r < kRows; ++r) {
    const float c = row + r < p.num_prefix ? p.prefix_weight : p.patch_weight;
    const float by = c * hydra::inverse_norm(sum_of_lanes(sums[r].norm), rule);
    const float given = sum_of_lanes(sums[r].given);
    p.heat[row + r] = kMeasure == HydraMeasure::sum ? by * given : by * by * given;
  }
}

template <hydra::Norm kNorm, HydraMeasure kMeasure, class T>
void hydra_map_with(const attention_map::HydraMapParams<T>& p) {
  std::int64_t row = 0;
  for (; row + kHydraMapRows <= p.rows; row += kHydraMapRows)
    hydra_map_rows<kHydraMapRows, kNorm, kMeasure>(p, row);
  for (; row < p.rows; ++row) hydra_map_rows<1, kNorm, kMeasure>(p, row);
}

template <HydraMeasure kMeasure, class T>
void hydra_map_by(const attention_map::HydraMapParams<T>& p) {
  switch (p.kernel.norm_k) {
    case hydra::Norm::l2: return hydra_map_with<hydra::Norm::l2, kMeasure>(p);
    case hydra::Norm::l1: return hydra_map_with<hydra::Norm::l1, kMeasure>(p);
    case hydra::Norm::none: return hydra_map_with<hydra::Norm::none, kMeasure>(p);
  }
}

template <class T>
void hydra_map_any(const attention_map::HydraMapParams<T>& p) {
  if (p.measure == HydraMeasure::sum) return hydra_map_by<HydraMeasure::sum>(p);
  hydra_map_by<HydraMeasure::squares>(p);
}

void attention_map_hydra_float32(const attention_map::HydraMapParams<float>& p) {
  hydra_map_any(p);
}
void attention_map_hydra_bfloat16(const attention_map::HydraMapParams<BFloat16>& p) {
  hydra_map_any(p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(attention_map_hydra_float32);
HWY_EXPORT(attention_map_hydra_bfloat16);

namespace attention_map {

void hydra_map(const HydraMapParams<float>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_hydra_float32)(params);
}
void hydra_map(const HydraMapParams<BFloat16>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_hydra_bfloat16)(params);
}

}  // namespace attention_map
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
