#include "kernels/resize/resize.h"

#include <algorithm>
#include <cmath>

// foreach_target.h includes this file once per instruction set, so it precedes the compiled code.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize/resize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector/weigh_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void resize_rows(const resize::Params& p) {
  constexpr int kVectors = 8;  // enough sums side by side to hide the latency of additions
  const F32 d;
  const std::size_t n = lanes();
  const auto width = static_cast<std::size_t>(p.columns->from);
  const auto most = static_cast<std::size_t>(p.columns->most);
  const auto stride = p.columns->from;
  // Filling weights are zero, and so are the elements after the row that they read.
  std::fill_n(p.scratch + width, most, 0.0F);
  float* y = p.y + p.first * p.columns->to();
  for (std::int64_t row = p.first; row < p.first + p.count; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const float* x = p.x + p.rows->first[at] * stride;
    const float* weights = p.rows->weights.data() + row * p.rows->most;
    const std::int64_t count = p.rows->count[at];
    std::size_t c = 0;
    for (; c + kVectors * n <= width; c += kVectors * n)
      weigh_rows<kVectors>(weights, count, x + c, stride, p.scratch + c);
    for (; c + n <= width; c += n) weigh_rows<1>(weights, count, x + c, stride, p.scratch + c);
    for (; c < width; ++c) {
      float sum = 0;
      for (std::int64_t t = 0; t < count; ++t)
        sum += weights[t] * x[static_cast<std::size_t>(t * stride) + c];
      p.scratch[c] = sum;
    }
    const float* column_weights = p.columns->weights.data();
    for (const std::int64_t first : p.columns->first) {
      VecF32 sum = hn::Zero(d);
      for (std::size_t t = 0; t < most; t += n)
        sum = hn::MulAdd(load(column_weights + t), load(p.scratch + first + t), sum);
      *y++ = sum_of_lanes(sum);
      column_weights += most;
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(resize_rows);

namespace resize {
namespace {

/// Keys' cubic with a = -1/2.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return 0;
}

}  // namespace

Taps bicubic_taps(std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kFilling = 16;  // lanes of the widest vectors
  constexpr double kReach = 2;           // reach of the cubic
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  Taps taps;
  taps.from = from;
  std::vector<std::vector<double>> weights;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const double reach = kReach * stretch;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const auto end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    std::vector<double>& row = weights.emplace_back();
    double sum = 0;
    for (std::int64_t j = first; j < end; ++j) {
      row.push_back(cubic((static_cast<double>(j) + 0.5 - centre) / stretch));
      sum += row.back();
    }
    for (double& weight : row) weight /= sum;
    taps.first.push_back(first);
    taps.count.push_back(end - first);
    taps.most = std::max(taps.most, (end - first + kFilling - 1) / kFilling * kFilling);
  }
  taps.weights = AlignedBuffer<float>(static_cast<std::size_t>(to * taps.most));
  std::fill_n(taps.weights.data(), taps.weights.size(), 0.0F);
  for (std::size_t i = 0; i < weights.size(); ++i)
    std::ranges::transform(weights[i],
                           taps.weights.data() + i * static_cast<std::size_t>(taps.most),
                           [](double weight) { return static_cast<float>(weight); });
  return taps;
}

void resize(const Params& params) { HWY_DYNAMIC_DISPATCH(resize_rows)(params); }

}  // namespace resize
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
