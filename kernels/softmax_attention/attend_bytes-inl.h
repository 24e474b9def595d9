// Softmax attention of a tile of queries over keys and values in 8 bits (byte_panels.h), in the order
// of attend-inl.h: group after group of queries, block after block of keys, strip after strip of six.
// A weight is multiplied by its value's scale and rounded to a share of the largest such product of the
// block, in 254ths. Thresholds of rounding differ from key to key, or thousands of small weights beside
// a large one would all round to zero. The divisor is the sum of the weights before rounding. Scores and
// weights of six queries and a block stay in L1 (15 KB), a block of keys and values in L2 (72 KB at
// d = 64). Tolerance and test: softmax_attention.h.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_BYTES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_BYTES_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_BYTES_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_BYTES_INL_H
#endif

#include "kernels/quantised_linear/integer_product-inl.h"
#include "kernels/softmax_attention/attend-inl.h"
#include "kernels/softmax_attention/pack_bytes-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using softmax_attention::ByteScratch;

/// Scores of a strip are computed in groups of so many keys.
constexpr std::int64_t kByteGroup = 16;
/// Rows that share a load of the keys' numbers.
constexpr int kRowsAtOnce = 3;
constexpr auto kRounders =
    softmax_attention::rounders<static_cast<std::size_t>(softmax_attention::kByteBlockKeys)>();

/// 2^x for x <= 8, relative error 1.8e-3, which the sum of weights shares; 2^-126 for all that is less.
/// NaN stays NaN.
HWY_INLINE VecF32 power_of_two(VecF32 x) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  const VecF32 rounder = hn::Set(d, 12582912.0F);  // 1.5 * 2^23: a float this large has no fraction
  x = at_least(hn::Set(d, -126.0F), x);
  const VecF32 rounded = hn::Add(x, rounder);
  const VecF32 f = hn::Sub(x, hn::Sub(rounded, rounder));
  VecF32 p = hn::MulAdd(hn::Set(d, 0.238429084F), f, hn::Set(d, 0.703448296F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.00044310F));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di32, rounded));
  return hn::BitCast(d, hn::Add(hn::BitCast(di32, p), exponent));
}

/// The sums of `columns` keys (a multiple of kByteGroup) of one panel become base-2 logarithms of their
/// weights times their values' scales, as float32 in the same place. `greatest`: of each row so far.
template <int kRows>
HWY_INLINE void log_weights(std::int32_t* sums, std::size_t columns, const KeyNumbers& of_keys,
                            const float* query_scales, VecF32* greatest) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const VecF32 scale = hn::LoadU(d, of_keys.scale + c);
    const VecF32 shift = hn::LoadU(d, of_keys.shift + c);
    const VecF32 log = hn::LoadU(d, of_keys.value_log + c);
    HWY_UNROLL(kRowsAtOnce)
    for (int r = 0; r < kRows; ++r) {
      std::int32_t* const at = sums + r * linear::kPanelColumns + c;
      const VecF32 score = hn::MulAdd(hn::ConvertTo(d, hn::LoadU(di32, at)), scale, shift);
      const VecF32 x = hn::MulAdd(score, hn::Set(d, query_scales[r]), log);
      greatest[r] = hn::Max(greatest[r], x);
      hn::StoreU(hn::BitCast(di32, x), di32, at);
    }
  }
}

/// The logarithm of a unit of weights in which the greatest is kLargestByte, or less where `greatest` is
/// so large that float32's steps are coarse.
HWY_INLINE float log_of_unit(float greatest) {
  constexpr float kLogOfLargestByte = 7.98868469F;
  static_assert(softmax_attention::kLargestByte == 254.0F);
  const float unit = greatest - kLogOfLargestByte;
  return greatest - unit > kLogOfLargestByte
             ? std::nextafter(unit, std::numeric_limits<float>::infinity())
             : unit;
}

/// The logarithms that log_weights left become weights in units of 2^unit. Weights without their values'
/// scales are added to `totals`, one sum per lane.
template <int kRows>
HWY_INLINE void byte_weights(const std::int32_t* logs, std::size_t columns,
                             const KeyNumbers& of_keys, const float* rounders, const float* units,
                             VecF32* totals, std::uint8_t* weights) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  const hn::Rebind<std::uint32_t, F32> du32;
  const hn::Rebind<std::uint8_t, F32> d8;
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const VecF32 inverse = hn::LoadU(d, of_keys.value_inverse + c);
    const VecF32 rounder = hn::LoadU(d, rounders + c);
    HWY_UNROLL(kRowsAtOnce)
    for (int r = 0; r < kRows; ++r) {
      const VecF32 x = hn::BitCast(d, hn::LoadU(di32, logs + r * linear::kPanelColumns + c));
      const VecF32 weight = power_of_two(hn::Sub(x, hn::Set(d, units[r])));
      totals[r] = hn::MulAdd(weight, inverse, totals[r]);
      const auto rounded = hn::BitCast(du32, hn::Add(weight, rounder));
      hn::StoreU(hn::TruncateTo(d8, hn::ShiftRight<8>(rounded)), d8,
                 weights + static_cast<std::size_t>(r * ByteScratch::kWeightStride) + c);
    }
  }
}

/// A block of keys that stays in L2 while a group of queries passes.
struct ByteBlock {
  std::int64_t first;  ///< a multiple of 64
  std::int64_t count;
  const std::int8_t* keys;    ///< panel of the first key
  const std::int8_t* values;  ///< of the first key in the first panel
  std::int64_t head_dim;
  std::int64_t num_tokens;

  [[nodiscard]] const std::int8_t* panel(std::int64_t key) const {
    return keys + key / linear::kPanelColumns * softmax_attention::key_panel_bytes(head_dim);
  }
  [[nodiscard]] const KeyNumbers& numbers(std::int64_t key) const {
    return softmax_attention::numbers_of(panel(key), head_dim);
  }
  /// Columns of the key's panel whose scores are computed.
  [[nodiscard]] std::size_t columns(std::int64_t key) const {
    const std::int64_t seen = linear::panel_columns(key, count);
    return static_cast<std::size_t>((seen + kByteGroup - 1) / kByteGroup * kByteGroup);
  }
};

/// The scores of kRows rows of a strip, from its row r on, become weights in the block's unit; the rows'
/// sums so far are kept in the greatest unit so far. to_output[r]: factor of the sums to come.
template <int kRows>
HWY_INLINE void weigh_rows(const ByteBlock& block, const ByteScratch& scratch, std::int64_t row,
                           int r, float* to_output) {
  constexpr std::int64_t kColumns = linear::kPanelColumns;
  const F32 d;
  const auto logs = [&](std::int64_t key) {
    return scratch.sums + key * linear::kStripRows + r * kColumns;
  };
  VecF32 most[kRows];
  VecF32 totals[kRows];
  float units[kRows];
  HWY_UNROLL(kRowsAtOnce)
  for (int i = 0; i < kRows; ++i) {
    most[i] = hn::Set(d, -std::numeric_limits<float>::infinity());
    totals[i] = hn::Zero(d);
  }
  for (std::int64_t key = 0; key < block.count; key += kColumns)
    log_weights<kRows>(logs(key), block.columns(key), block.numbers(key),
                       scratch.query_scales + row + r, most);
  HWY_UNROLL(kRowsAtOnce)
  for (int i = 0; i < kRows; ++i) units[i] = log_of_unit(hn::GetLane(hn::MaxOfLanes(d, most[i])));
  for (std::int64_t key = 0; key < block.count; key += kColumns)
    byte_weights<kRows>(logs(key), block.columns(key), block.numbers(key), kRounders.data() + key,
                        units, totals, scratch.weights + r * ByteScratch::kWeightStride + key);
  for (int i = 0; i < kRows; ++i) {
    float& reference = scratch.references[row + r + i];
    float* const output = scratch.outputs + (row + r + i) * scratch.width;
    float* const total = scratch.totals + (row + r + i) * static_cast<std::int64_t>(kTotalLanes);
    to_output[r + i] = 1;
    if (block.first == 0) {
      reference = units[i];
      store(totals[i], total);
      continue;
    }
    if (units[i] > reference) {
      const VecF32 before = hn::Set(d, std::exp2(reference - units[i]));
      reference = units[i];
      store(hn::MulAdd(load(total), before, totals[i]), total);
      for (std::int64_t c = 0; c < scratch.width; c += static_cast<std::int64_t>(lanes()))
        store(hn::Mul(load(output + c), before), output + c);
    } else {
      to_output[r + i] = std::exp2(units[i] - reference);
      store(hn::MulAdd(totals[i], hn::Set(d, to_output[r + i]), load(total)), total);
    }
  }
}

/// A strip of queries against one block of keys.
HWY_INLINE void attend_byte_block(const ByteBlock& block, const ByteScratch& scratch,
                                  std::int64_t row, int rows) {
  constexpr std::int64_t kColumns = linear::kPanelColumns;
  const std::int64_t query_bytes = softmax_attention::in_quads(block.head_dim);
  for (std::int64_t key = 0; key < block.count; key += kColumns) {
    const IntegerStrip strip{scratch.queries + row * query_bytes, query_bytes, query_bytes / kQuad,
                             block.panel(key), scratch.sums + key * linear::kStripRows};
    switch (block.columns(key)) {
      case 16: integer_product<16>(strip, rows); break;
      case 32: integer_product<32>(strip, rows); break;
      default: integer_product(strip, rows);
    }
  }
  float to_output[linear::kStripRows];
  int r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce)
    weigh_rows<kRowsAtOnce>(block, scratch, row, r, to_output);
  for (; r < rows; ++r) weigh_rows<1>(block, scratch, row, r, to_output);
  const hn::Rebind<std::int32_t, F32> di32;
  const std::int8_t* values = block.values;
  for (std::int64_t column = 0; column < scratch.width; column += kColumns) {
    integer_product(
        IntegerStrip{scratch.weights, ByteScratch::kWeightStride,
                     softmax_attention::in_quads(block.count) / kQuad, values, scratch.sums},
        rows);
    for (r = 0; r < rows; ++r) {
      float* const output = scratch.outputs + (row + r) * scratch.width + column;
      const VecF32 factor = hn::Set(F32(), to_output[r]);
      for (std::int64_t c = 0; c < kColumns; c += static_cast<std::int64_t>(lanes())) {
        const VecF32 sum = hn::ConvertTo(F32(), hn::LoadU(di32, scratch.sums + r * kColumns + c));
        store(block.first == 0 ? sum : hn::MulAdd(sum, factor, load(output + c)), output + c);
      }
    }
    values += softmax_attention::value_panel_bytes(block.num_tokens);
  }
}

template <class T>
void attend_bytes_of(const softmax_attention::AttendParams<T>& p) {
  constexpr std::int64_t kRows = linear::kStripRows;
  const std::int64_t d = p.shape.head_dim;
  const std::int64_t num_tokens = p.shape.num_tokens;
  if (num_tokens <= 0 || p.rows <= 0) return;
  const std::int64_t block_keys =
      softmax_attention::even_block_keys(num_tokens, softmax_attention::kByteBlockKeys);
  const std::int64_t group_rows = block_keys >= num_tokens ? kRows : kGroupRows;
  const std::int64_t query_bytes = softmax_attention::in_quads(d);
  const ByteScratch scratch(p.scratch, d);
  const ByteStore store;
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    const std::int8_t* keys = reinterpret_cast<const std::int8_t*>(p.keys) +
                              softmax_attention::keys_before(p.shape, head);
    const std::int8_t* values = reinterpret_cast<const std::int8_t*>(p.values) +
                                softmax_attention::values_before(p.shape, head);
    for (std::int64_t group = 0; group < p.rows; group += group_rows) {
      const std::int64_t rows = p.rows - group < group_rows ? p.rows - group : group_rows;
      const T* const q = p.q + group * p.q_stride + head * d;
      for (std::int64_t row = 0; row < rows; ++row)
        scratch.query_scales[row] =
            put_query(q + row * p.q_stride, d, store, scratch.queries + row * query_bytes);
      prefetch_group(q, p.q_stride, rows, p.rows - group - rows, d);
      for (std::int64_t key = 0; key < num_tokens; key += block_keys) {
        const ByteBlock block{
            key,
            num_tokens - key < block_keys ? num_tokens - key : block_keys,
            keys + key / linear::kPanelColumns * softmax_attention::key_panel_bytes(d),
            values + key * linear::kPanelColumns,
            d,
            num_tokens};
        for (std::int64_t row = 0; row < rows; row += kRows)
          attend_byte_block(block, scratch, row,
                            static_cast<int>(rows - row < kRows ? rows - row : kRows));
      }
      for (std::int64_t row = 0; row < rows; ++row)
        write_output(scratch.outputs + row * scratch.width,
                     scratch.totals + row * static_cast<std::int64_t>(kTotalLanes), d,
                     p.y + (group + row) * p.y_stride + head * d);
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
