#include "kernels/hydra/hydra.h"

#include "kernels/hydra/norm.h"
#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hydra/hydra.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector/pair-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Rows a pass: q, k, v and q_hat of four rows of 768 stay in L1 between the norms and the
/// products, and the sums are loaded and stored once for four rows.
constexpr int kHydraRows = 4;

HWY_INLINE Pair zero_pair() { return {hn::Zero(F32()), hn::Zero(F32())}; }

template <hydra::Norm kNorm>
HWY_INLINE VecF32 add_to_norm(VecF32 x, VecF32 sum) {
  return kNorm == hydra::Norm::l2 ? hn::MulAdd(x, x, sum) : hn::Add(hn::Abs(x), sum);
}

/// |x|^2 or sum |x_f|. Four chains hide the latency of an addition.
template <hydra::Norm kNorm, class T>
HWY_INLINE float norm_sum(const T* x, std::size_t dim) {
  const std::size_t step = 2 * lanes();
  Pair a = zero_pair();
  Pair b = zero_pair();
  std::size_t f = 0;
  for (; f + 2 * step <= dim; f += 2 * step) {
    const Pair x0 = load_pair(x + f);
    const Pair x1 = load_pair(x + f + step);
    a.first = add_to_norm<kNorm>(x0.first, a.first);
    a.second = add_to_norm<kNorm>(x0.second, a.second);
    b.first = add_to_norm<kNorm>(x1.first, b.first);
    b.second = add_to_norm<kNorm>(x1.second, b.second);
  }
  for (; f < dim; f += step) {
    const std::size_t remainder = dim - f;
    const Pair x0 =
        remainder < step ? load_pair(PairTail<T>(x + f, remainder).values) : load_pair(x + f);
    a.first = add_to_norm<kNorm>(x0.first, a.first);
    a.second = add_to_norm<kNorm>(x0.second, a.second);
  }
  return sum_of_lanes(hn::Add(hn::Add(a.first, a.second), hn::Add(b.first, b.second)));
}

/// 1 / r of a row. A call for a row costs nothing that shows; inlined, it is most of the code of this file.
template <class T>
HWY_NOINLINE float inverse_norm_of(const T* x, std::size_t dim, const hydra::NormRule& rule) {
  if (rule.norm == hydra::Norm::none) return 1;
  const float sum = rule.norm == hydra::Norm::l2 ? norm_sum<hydra::Norm::l2>(x, dim)
                                                 : norm_sum<hydra::Norm::l1>(x, dim);
  return hydra::inverse_norm(sum, rule);
}

HWY_INLINE Pair scaled(Pair x, float by) {
  const VecF32 factor = hn::Set(F32(), by);
  return {hn::Mul(x.first, factor), hn::Mul(x.second, factor)};
}

/// sum + (k * by) * v
HWY_INLINE Pair gathered(Pair k, float by, Pair v, Pair sum) {
  const Pair kh = scaled(k, by);
  return {hn::MulAdd(kh.first, v.first, sum.first), hn::MulAdd(kh.second, v.second, sum.second)};
}

/// Features of kRows rows from their norms. `sum` is in the order of load_pair<T>; features beyond
/// the last whole pair are in `sum_tail`. With kQueries, their q_hat too.
template <int kRows, bool kQueries, class T>
HWY_INLINE void project_rows(const hydra::ProjectParams<T>& p, std::int64_t row, float* sum_tail) {
  const std::size_t step = 2 * lanes();
  const auto dim = static_cast<std::size_t>(p.dim);
  const T* q = p.q + row * p.q_stride;
  const T* k = p.k + row * p.stride;
  const T* v = p.v + row * p.stride;
  T* q_hat = p.q_hat + row * p.q_hat_stride;
  float of_q[kRows];
  float of_k[kRows];
  for (int r = 0; r < kRows; ++r) {
    if (kQueries) of_q[r] = inverse_norm_of(q + r * p.q_stride, dim, p.kernel.query);
    of_k[r] = static_cast<float>(p.weights.of(row + r)) *
              inverse_norm_of(k + r * p.stride, dim, p.kernel.key);
  }
  std::size_t f = 0;
  for (; f + step <= dim; f += step) {
    Pair sum = load_pair(p.sum + f);
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = r * p.stride + static_cast<std::int64_t>(f);
      sum = gathered(load_pair(k + at), of_k[r], load_pair(v + at), sum);
      if (kQueries)
        store_pair(scaled(load_pair(q + r * p.q_stride + f), of_q[r]),
                   q_hat + r * p.q_hat_stride + f);
    }
    store_pair(sum, p.sum + f);
  }
  if (f == dim) return;
  const std::size_t remainder = dim - f;
  Pair sum = load_pair(sum_tail);
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t at = r * p.stride + static_cast<std::int64_t>(f);
    const PairTail<T> k_tail(k + at, remainder);
    const PairTail<T> v_tail(v + at, remainder);
    sum = gathered(load_pair(k_tail.values), of_k[r], load_pair(v_tail.values), sum);
    if (!kQueries) continue;
    PairTail<T> q_tail(q + r * p.q_stride + f, remainder);
    store_pair(scaled(load_pair(q_tail.values), of_q[r]), q_tail.values);
    q_tail.give(q_hat + r * p.q_hat_stride + f, remainder);
  }
  store_pair(sum, sum_tail);
}

template <class T>
void project_with(const hydra::ProjectParams<T>& p) {
  const std::size_t step = 2 * lanes();
  const auto dim = static_cast<std::size_t>(p.dim);
  for (std::size_t f = 0; f < dim; ++f) p.sum[f] = 0;
  HWY_ALIGN float sum_tail[kMaxPair] = {};
  std::int64_t row = 0;
  for (; row + kHydraRows <= p.query_rows; row += kHydraRows)
    project_rows<kHydraRows, true>(p, row, sum_tail);
  for (; row < p.query_rows; ++row) project_rows<1, true>(p, row, sum_tail);
  for (; row + kHydraRows <= p.rows; row += kHydraRows)
    project_rows<kHydraRows, false>(p, row, sum_tail);
  for (; row < p.rows; ++row) project_rows<1, false>(p, row, sum_tail);
  if constexpr (sizeof(T) == 2) {
    for (std::size_t f = 0; f + step <= dim; f += step)
      store_pair_as<T>(load_pair(p.sum + f), p.sum + f);
  }
  const std::size_t remainder = dim % step;
  if (remainder == 0) return;
  HWY_ALIGN float in_order[kMaxPair];
  store_pair_as<T>(load_pair(sum_tail), in_order);
  for (std::size_t f = 0; f < remainder; ++f) p.sum[dim - remainder + f] = in_order[f];
}

void hydra_combine_float32(const float* sums, std::int64_t count, std::int64_t dim, float scale,
                           const float* feature_scale, float* g) {
  const VecF32 by = hn::Set(F32(), scale);
  for (std::int64_t f = 0; f < dim; f += static_cast<std::int64_t>(lanes())) {
    VecF32 sum = hn::Zero(F32());
    for (std::int64_t i = 0; i < count; ++i) sum = hn::Add(sum, take(sums + i * dim + f, dim - f));
    sum = hn::Mul(sum, by);
    if (feature_scale != nullptr) sum = hn::Mul(sum, take(feature_scale + f, dim - f));
    give(sum, g + f, dim - f);
  }
}

HWY_INLINE Pair product(Pair a, Pair b) {
  return {hn::Mul(a.first, b.first), hn::Mul(a.second, b.second)};
}

HWY_INLINE VecF32 with_plain_nan(VecF32 g) {
  return hn::IfThenElse(hn::IsNaN(g), hn::Set(F32(), std::numeric_limits<float>::quiet_NaN()), g);
}

/// A vector pair of g as factors: NaN in the form that rounding keeps.
template <class T>
HWY_INLINE Pair load_gate(const float* g) {
  const Pair gate = load_pair_as<T>(g);
  return {with_plain_nan(gate.first), with_plain_nan(gate.second)};
}

template <int kRows, class T>
HWY_INLINE void gate_rows(const hydra::GateParams<T>& p, std::int64_t first) {
  const std::size_t step = 2 * lanes();
  const auto dim = static_cast<std::size_t>(p.dim);
  const float* g = p.g;
  const T* q_hat = p.q_hat + first * p.q_hat_stride;
  T* y = p.y + first * p.y_stride;
  std::size_t f = 0;
  for (; f + step <= dim; f += step) {
    const Pair gate = load_gate<T>(g + f);
    for (int r = 0; r < kRows; ++r)
      store_pair(product(load_pair(q_hat + r * p.q_hat_stride + f), gate), y + r * p.y_stride + f);
  }
  if (f == dim) return;
  const std::size_t remainder = dim - f;
  const Pair gate = load_gate<T>(PairTail<float>(g + f, remainder).values);
  for (int r = 0; r < kRows; ++r) {
    PairTail<T> tail(q_hat + r * p.q_hat_stride + f, remainder);
    store_pair(product(load_pair(tail.values), gate), tail.values);
    tail.give(y + r * p.y_stride + f, remainder);
  }
}

template <class T>
void gate_with(const hydra::GateParams<T>& p) {
  std::int64_t row = 0;
  for (; row + kHydraRows <= p.rows; row += kHydraRows) gate_rows<kHydraRows>(p, row);
  for (; row < p.rows; ++row) gate_rows<1>(p, row);
}

/// y + (q * by) * g
HWY_INLINE Pair with_gated(Pair y, Pair q, float by, Pair gate) {
  const Pair q_hat = scaled(q, by);
  return {hn::MulAdd(q_hat.first, gate.first, y.first),
          hn::MulAdd(q_hat.second, gate.second, y.second)};
}

template <class T>
void add_gated_with(const hydra::AddGatedParams<T>& p) {
  const std::size_t step = 2 * lanes();
  const auto dim = static_cast<std::size_t>(p.dim);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* q = p.q + row * p.q_stride;
    T* y = p.y + row * p.y_stride;
    const float by = inverse_norm_of(q, dim, p.rule);
    std::size_t f = 0;
    for (; f + step <= dim; f += step)
      store_pair(with_gated(load_pair(y + f), load_pair(q + f), by, load_gate<T>(p.g + f)), y + f);
    if (f == dim) continue;
    const std::size_t remainder = dim - f;
    const Pair gate = load_gate<T>(PairTail<float>(p.g + f, remainder).values);
    const PairTail<T> q_tail(q + f, remainder);
    PairTail<T> y_tail(y + f, remainder);
    store_pair(with_gated(load_pair(y_tail.values), load_pair(q_tail.values), by, gate),
               y_tail.values);
    y_tail.give(y + f, remainder);
  }
}

HYDRASCOPE_STORED_KERNELS(hydra_project, project_with, hydra::ProjectParams)
HYDRASCOPE_STORED_KERNELS(hydra_gate, gate_with, hydra::GateParams)
HYDRASCOPE_STORED_KERNELS(hydra_add_gated, add_gated_with, hydra::AddGatedParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(hydra_combine_float32);

namespace hydra {

HYDRASCOPE_DISPATCH(project, hydra_project, ProjectParams)

void combine(const float* sums, std::int64_t count, std::int64_t dim, float scale,
             const float* feature_scale, float* g) {
  HWY_DYNAMIC_DISPATCH(hydra_combine_float32)(sums, count, dim, scale, feature_scale, g);
}

HYDRASCOPE_DISPATCH(gate, hydra_gate, GateParams)
HYDRASCOPE_DISPATCH(add_gated, hydra_add_gated, AddGatedParams)

}  // namespace hydra
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
