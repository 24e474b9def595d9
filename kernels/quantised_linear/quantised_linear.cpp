#include "kernels/quantised_linear/quantised_linear.h"

#include "kernels/error.h"
#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantised_linear/quantised_linear.cpp"
// clang-format off: the first include repeats the rest of the file.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/amx/amx_tiles.h"
#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/write_strip-inl.h"
#include "kernels/quantised_linear/integer_product-inl.h"
#include "kernels/quantised_linear/integer_sums-inl.h"
#include "kernels/quantised_linear/tiled_quantised_linear-inl.h"
#include "kernels/quantised_linear/to_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// A vector of a row's values times their multipliers.
template <class T, bool kMultiplier>
HWY_INLINE VecF32 scaled_values(const T* x, const float* multiplier, std::size_t at) {
  const VecF32 v = load(x + at);
  return kMultiplier ? hn::Mul(v, hn::LoadU(F32(), multiplier + at)) : v;
}

template <class T, bool kMultiplier>
void quantise_row(const T* x, const float* multiplier, std::size_t in, std::uint8_t* out,
                  float* scale, float* least) {
  const F32 d;
  const hn::Rebind<std::uint8_t, F32> d8;
  const std::size_t n = hn::Lanes(d);
  const auto value = [&](std::size_t i) {
    return kMultiplier ? static_cast<float>(x[i]) * multiplier[i] : static_cast<float>(x[i]);
  };
  float lo = value(0);
  float hi = lo;
  float poison = 0;  // NaN once there is a NaN or an infinity
  std::size_t i = 0;
  if (in >= n) {
    // Chains that do not wait for each other.
    constexpr std::size_t kChains = 4;
    VecF32 lows[kChains];
    VecF32 highs[kChains];
    for (std::size_t c = 0; c < kChains; ++c)
      lows[c] = highs[c] = scaled_values<T, kMultiplier>(x, multiplier, 0);
    VecF32 poisons = hn::Zero(d);
    const auto take = [&](std::size_t c, std::size_t at) HWY_ATTR {
      const VecF32 v = scaled_values<T, kMultiplier>(x, multiplier, at);
      lows[c] = hn::Min(lows[c], v);
      highs[c] = hn::Max(highs[c], v);
      poisons = hn::MulAdd(v, hn::Zero(d), poisons);
    };
    for (; i + kChains * n <= in; i += kChains * n)
      for (std::size_t c = 0; c < kChains; ++c) take(c, i + c * n);
    for (; i + n <= in; i += n) take(0, i);
    for (std::size_t c = 1; c < kChains; ++c) {
      lows[0] = hn::Min(lows[0], lows[c]);
      highs[0] = hn::Max(highs[0], highs[c]);
    }
    lo = hn::GetLane(hn::MinOfLanes(d, lows[0]));
    hi = hn::GetLane(hn::MaxOfLanes(d, highs[0]));
    poison = sum_of_lanes(poisons);
  }
  for (; i < in; ++i) {
    const float v = value(i);
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
    poison += v * 0.0F;
  }
  const float range = hi - lo;
  *scale = range / 255.0F + poison;
  *least = lo + poison;
  const float inverse = range > 0 ? 255.0F / range : 0.0F;
  const VecF32 shift = hn::Set(d, lo);
  const VecF32 factor = hn::Set(d, inverse);
  const auto rounded = [&](std::size_t at) HWY_ATTR {
    const VecF32 v = scaled_values<T, kMultiplier>(x, multiplier, at);
    return nearest(hn::Mul(hn::Sub(v, shift), factor));
  };
  i = 0;
  const ByteStore store;
  for (; i + 4 * n <= in; i += 4 * n)
    store(rounded(i), rounded(i + n), rounded(i + 2 * n), rounded(i + 3 * n), out + i);
  for (; i + n <= in; i += n) hn::StoreU(hn::DemoteTo(d8, rounded(i)), d8, out + i);
  for (; i < in; ++i) {
    const hn::CappedTag<float, 1> one;
    const hn::Rebind<std::uint8_t, decltype(one)> one8;
    const auto last = hn::NearestInt(hn::Set(one, (value(i) - lo) * inverse));
    hn::StoreU(hn::DemoteTo(one8, last), one8, out + i);
  }
  for (; i % 64 != 0; ++i) out[i] = 0;
}

template <class T>
void quantise_rows(const quantised_linear::QuantiseParams<T>& p) {
  const auto in = static_cast<std::size_t>(p.in);
  const std::int64_t bytes = quantised_linear::row_bytes(p.in);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* x = p.x + row * p.x_stride;
    std::uint8_t* out = p.out.values + row * bytes;
    if (p.multiplier != nullptr)
      quantise_row<T, true>(x, p.multiplier, in, out, p.out.scale + row, p.out.least + row);
    else
      quantise_row<T, false>(x, nullptr, in, out, p.out.scale + row, p.out.least + row);
  }
}

template <class T, linear::Epilogue kEpilogue>
void quantised_with(const quantised_linear::LinearParams<T>& p) {
  HWY_ALIGN std::int32_t sums[linear::kStripRows * linear::kPanelColumns];
  const quantised_linear::QuantisedWeight& weight = *p.weight;
  const std::int64_t bytes = quantised_linear::row_bytes(weight.in());
  const bool in_pairs = weight.form() == quantised_linear::WeightForm::pairs;
  const std::int64_t end = p.outputs.end_of(weight.out());
  for (std::int64_t column = p.outputs.first; column < end; column += linear::kPanelColumns) {
    const auto columns = static_cast<std::size_t>(linear::panel_columns(column, weight.out()));
    const std::int64_t panel = column / linear::kPanelColumns;
    IntegerStrip s{p.x.values, bytes, (weight.in() + 3) / 4,
                   in_pairs ? nullptr : weight.panel(panel), sums};
    for (std::int64_t row = 0; row < p.rows;
         row += linear::kStripRows, s.a += linear::kStripRows * bytes) {
      const int rows =
          static_cast<int>(p.rows - row < linear::kStripRows ? p.rows - row : linear::kStripRows);
      T* const y = p.y + row * p.y_stride + column;
      prefetch_strip<kEpilogue>(rows, y, p.y_stride, columns);
      if (in_pairs)
        paired_product(s.a, bytes, weight.pairs(), panel, rows, sums);
      else
        integer_product(s, rows);
      write_strip<T, kEpilogue, BFloat16>(
          IntegerSums{sums, p.x.scale + row, p.x.least + row, weight.scale() + column,
                      weight.sum() + column},
          rows, p.bias == nullptr ? nullptr : p.bias + column, y, p.y_stride, columns);
    }
  }
}

template <class T>
void quantised_of(const quantised_linear::LinearParams<T>& p) {
  if (p.weight->form() == quantised_linear::WeightForm::tiles) {
#if HYDRASCOPE_HAS_AVX512  // every processor that has AMX has it
    amx::AmxTiles tiles;
    return tiled_quantised_linear(tiles, p);
#else
    HWY_ABORT("a weight of tiles was packed for another target");
#endif
  }
  switch (p.epilogue) {
    case linear::Epilogue::store: return quantised_with<T, linear::Epilogue::store>(p);
    case linear::Epilogue::gelu: return quantised_with<T, linear::Epilogue::gelu>(p);
    case linear::Epilogue::add: return quantised_with<T, linear::Epilogue::add>(p);
  }
}

bool reads_weights_in(quantised_linear::WeightForm form) {
  switch (form) {
    case quantised_linear::WeightForm::quads: return true;
    case quantised_linear::WeightForm::pairs: return HYDRASCOPE_MULTIPLIES_BYTES != 0;
    case quantised_linear::WeightForm::tiles:
      return device::may_use(device::MatrixInstruction::amx_int8);
  }
  return false;
}
quantised_linear::WeightForm fastest_weight_form() {
  using enum quantised_linear::WeightForm;
  if (reads_weights_in(tiles)) return tiles;
#if HYDRASCOPE_MULTIPLIES_BYTES
  if (!multiplies_bytes()) return pairs;
#endif
  return quads;
}

HYDRASCOPE_STORED_KERNELS(quantise, quantise_rows, quantised_linear::QuantiseParams)
HYDRASCOPE_STORED_KERNELS(quantised_linear, quantised_of, quantised_linear::LinearParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace hydrascope::kernels::quantised_linear {

HWY_EXPORT(reads_weights_in);
HWY_EXPORT(fastest_weight_form);

bool reads_form(WeightForm form) { return HWY_DYNAMIC_DISPATCH(reads_weights_in)(form); }
WeightForm fastest_form() { return HWY_DYNAMIC_DISPATCH(fastest_weight_form)(); }

QuantisedWeight::QuantisedWeight(const float* weight, std::int64_t out, std::int64_t in,
                                 std::int64_t row_stride, WeightForm form, device::ThreadTeam* team)
    : in_(in), out_(out), form_(form) {
  if (!reads_form(form))
    throw Error(ErrorCode::internal, "a form of weight that this process cannot multiply by");
  const std::int64_t panels = linear::panels_of(out);
  const auto columns = static_cast<std::size_t>(panels * linear::kPanelColumns);
  scale_ = AlignedBuffer<float>(columns);
  sum_ = AlignedBuffer<float>(columns);
  std::fill(scale_.begin(), scale_.end(), 0.0F);
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  const auto set_scales = [&](std::int64_t panel) {
    const std::int64_t first = panel * linear::kPanelColumns;
    for (std::int64_t o = first; o < first + linear::panel_columns(first, out); ++o) {
      float largest = 0;
      for (std::int64_t k = 0; k < in; ++k)
        largest = std::max(largest, std::abs(weight[o * row_stride + k]));
      scale_[static_cast<std::size_t>(o)] = largest / 127.0F;
    }
  };
  // Sums of integers below 2^24 are exact in float32: 132 000 rows of at most 127.
  const auto quantised = [&](std::int64_t k, std::int64_t o) {
    const float step = scale_[static_cast<std::size_t>(o)];
    const long value = step > 0 ? std::lrint(weight[o * row_stride + k] / step) : 0;
    const auto clamped = static_cast<std::int8_t>(std::clamp(value, -127L, 127L));
    sum_[static_cast<std::size_t>(o)] += clamped;
    return clamped;
  };
  if (form == WeightForm::pairs) {
    device::for_each_of(team, panels, set_scales);
    pairs_ = PairedPanels(row_bytes(in), panels * linear::kPanelColumns,
                          [&](std::int64_t k, std::int64_t o) {
                            return k < in && o < out ? quantised(k, o) : std::int8_t{0};
                          });
  } else {
    panels_ = AlignedBuffer<std::int8_t>(static_cast<std::size_t>(panels * panel_size(in)));
    device::for_each_of(team, panels, [&](std::int64_t panel) {
      set_scales(panel);
      std::int8_t* const values = panels_.data() + panel * panel_size(in);
      linear::fill_panel<4>(panel * linear::kPanelColumns, row_bytes(in), in, out, quantised,
                            values);
      if (form == WeightForm::tiles)
        amx::order_as_tiles(reinterpret_cast<std::byte*>(values),
                            row_bytes(in) / amx::kInt8StepDepth);
    });
  }
  for (std::size_t o = 0; o < columns; ++o) sum_[o] *= scale_[o];
}

HYDRASCOPE_DISPATCH(quantise, quantise, QuantiseParams)
HYDRASCOPE_DISPATCH(linear, quantised_linear, LinearParams)

}  // namespace hydrascope::kernels::quantised_linear
#endif  // HWY_ONCE
