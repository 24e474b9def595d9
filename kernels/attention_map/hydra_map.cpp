#include "kernels/attention_map/attention_map.h"
#include "kernels/hydra/norm.h"
#include "kernels/vector/dispatch.h"

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
struct RowSums {
  VecF32 norm;
  VecF32 contribution;
};

template <hydra::Norm kNorm, HydraMeasure kMeasure>
HWY_INLINE RowSums add_contribution(VecF32 w, VecF32 k, VecF32 v, RowSums sums) {
  if constexpr (kNorm == hydra::Norm::l2) sums.norm = hn::MulAdd(k, k, sums.norm);
  if constexpr (kNorm == hydra::Norm::l1) sums.norm = hn::Add(hn::Abs(k), sums.norm);
  const VecF32 product = hn::Mul(k, v);
  if constexpr (kMeasure == HydraMeasure::sum) {
    sums.contribution = hn::MulAdd(product, w, sums.contribution);
  } else {
    const VecF32 term = hn::Mul(product, w);
    sums.contribution = hn::MulAdd(term, term, sums.contribution);
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
  RowSums sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = {hn::Zero(d), hn::Zero(d)};
  std::size_t f = 0;
  for (; f + 2 * n <= dim; f += 2 * n) {
    const Pair w = load_pair_as<T>(p.weight + f);
    for (int r = 0; r < kRows; ++r) {
      const Pair of_k = load_pair(k + r * p.stride + f);
      const Pair of_v = load_pair(v + r * p.stride + f);
      sums[r] = add_contribution<kNorm, kMeasure>(w.first, of_k.first, of_v.first, sums[r]);
      sums[r] = add_contribution<kNorm, kMeasure>(w.second, of_k.second, of_v.second, sums[r]);
    }
  }
  for (; f < dim; f += n) {  // what fills no pair
    const auto remainder = static_cast<std::int64_t>(dim - f);
    const VecF32 w = take(p.weight + f, remainder);
    for (int r = 0; r < kRows; ++r)
      sums[r] = add_contribution<kNorm, kMeasure>(w, take(k + r * p.stride + f, remainder),
                                                  take(v + r * p.stride + f, remainder), sums[r]);
  }
  const hydra::NormRule rule{kNorm, p.kernel.eps_rule, p.kernel.eps};
  for (int r = 0; r < kRows; ++r) {
    const float c = row + r < p.num_prefix ? p.prefix_weight : p.patch_weight;
    const float by = c * hydra::inverse_norm(sum_of_lanes(sums[r].norm), rule);
    const float contribution = sum_of_lanes(sums[r].contribution);
    p.heat[row + r] = kMeasure == HydraMeasure::sum ? by * contribution : by * by * contribution;
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

HYDRASCOPE_STORED_KERNELS(attention_map_hydra, hydra_map_any, attention_map::HydraMapParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::attention_map {

HYDRASCOPE_DISPATCH(hydra_map, attention_map_hydra, HydraMapParams)

}  // namespace hydrascope::kernels::attention_map
#endif  // HWY_ONCE
