// Softmax attention of a tile of queries over packed keys: group after group of queries, block after
// block of keys, strip after strip of the group. Tolerance and test: softmax_attention.h; on tiles
// tests/kernels/amx/tiled_attention_test.cpp. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_ATTEND_INL_H
#endif

#include "kernels/amx/tile_strips-inl.h"
#include "kernels/softmax_attention/pack-inl.h"
#include "kernels/softmax_attention/scratch.h"
#include "kernels/softmax_attention/weights-inl.h"

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using softmax_attention::kGroupRows;
using softmax_attention::kTotalLanes;
using softmax_attention::Scratch;

/// Keys that stay in L2 while a group of queries passes.
template <class T>
struct KeyBlock {
  std::int64_t count;
  const T* keys;             ///< panel of the first key
  const T* values;           ///< row of the first key in the first panel
  std::int64_t next_values;  ///< to the same row in the next panel of values
  /// The bits of the strip's first query from this block's first key on; the next query's bits lie
  /// `sees_words` further. Null: all keys are seen.
  const std::uint32_t* sees;
  std::int64_t sees_words;
};

/// The part of a block that some of `rows` queries see, from a panel's beginning on; may be empty.
template <class T>
HWY_INLINE KeyBlock<T> seen_keys(KeyBlock<T> block, int rows, std::int64_t head_dim) {
  if (block.sees == nullptr) return block;
  constexpr auto kWordKeys = static_cast<std::int64_t>(kScoreGroup);
  constexpr std::int64_t kPanelWords = linear::kPanelColumns / kWordKeys;
  std::int64_t begin = (block.count + kWordKeys - 1) / kWordKeys;
  std::int64_t end = 0;
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t* row = block.sees + r * block.sees_words;
    for (std::int64_t w = 0; w < begin; ++w)
      if (row[w] != 0) begin = w;
    for (std::int64_t w = (block.count + kWordKeys - 1) / kWordKeys; w > end; --w)
      if (row[w - 1] != 0) end = w;
  }
  begin = begin / kPanelWords * kPanelWords;
  const std::int64_t last = end * kWordKeys < block.count ? end * kWordKeys : block.count;
  block.count = last > begin * kWordKeys ? last - begin * kWordKeys : 0;
  block.keys += begin / kPanelWords * linear::panel_size<T>(head_dim);
  block.values += begin * kWordKeys * linear::kPanelColumns;
  block.sees += begin;
  return block;
}

/// The state of queries that have seen no key so far.
template <class T>
HWY_INLINE void clear_sums(const Scratch<T>& scratch, std::int64_t row, int rows) {
  constexpr auto kLanes = static_cast<std::int64_t>(kTotalLanes);
  for (std::int64_t r = row; r < row + rows; ++r) {
    scratch.references[r] = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < kLanes; ++i) scratch.totals[r * kLanes + i] = 0;
    for (std::int64_t i = 0; i < scratch.width; ++i) scratch.outputs[r * scratch.width + i] = 0;
  }
}

/// Raises the reference of one query to `largest`; the sums against the old reference shrink.
HWY_INLINE void raise_reference(float largest, bool first, float* reference, float* total,
                                float* output, std::int64_t width) {
  if (first) {
    *reference = largest;
    return;
  }
  if (!(largest > *reference)) return;
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const VecF32 factor = exp_f32(hn::Set(d, *reference - largest));
  *reference = largest;
  hn::StoreU(hn::Mul(hn::LoadU(d, total), factor), d, total);
  for (std::size_t i = 0; i < static_cast<std::size_t>(width); i += n)
    hn::StoreU(hn::Mul(hn::LoadU(d, output + i), factor), d, output + i);
}

/// A strip of queries against one block of keys.
template <class T, class Strips>
HWY_INLINE void attend_block(Strips& strips, const T* q, std::int64_t q_stride, int rows,
                             std::int64_t head_dim, const KeyBlock<T>& block, bool first,
                             const Scratch<T>& scratch, std::int64_t row) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t kHalfPanel = kScoreGroup;
  const std::int64_t width = scratch.width;
  const std::int64_t stride = scratch.score_stride;
  float* output = scratch.outputs + row * width;
  linear::Strip<T> to_scores{q,          q_stride,       kStep<T>, head_dim,
                             block.keys, scratch.scores, stride,   false};
  for (std::int64_t key = 0; key < block.count; key += linear::kPanelColumns) {
    if (block.count - key > kHalfPanel)
      strips.template multiply<linear::kPanelColumns>(to_scores, rows);
    else
      strips.template multiply<kHalfPanel>(to_scores, rows);
    to_scores.panel += linear::panel_size<T>(head_dim);
    to_scores.c += linear::kPanelColumns;
  }
  const auto count = static_cast<std::size_t>(block.count);
  const std::size_t columns = (count + kScoreGroup - 1) / kScoreGroup * kScoreGroup;
  // Two passes over the rows: the reduction to a maximum is a chain, and rows hide each other's.
  for (int r = 0; r < rows; ++r) {
    float* scores = scratch.scores + r * stride;
    if (block.sees != nullptr)
      hide_unseen(block.sees + r * block.sees_words, columns, scores);
    else if (count < columns)
      mask_scores<T>(scores + columns - kScoreGroup, count % kScoreGroup);
    raise_reference(largest_score(scores, columns) + kReferenceMargin<T>, first,
                    scratch.references + row + r,
                    scratch.totals + (row + r) * static_cast<std::int64_t>(kTotalLanes),
                    output + r * width, width);
  }
  for (int r = 0; r < rows; ++r) {
    const float reference = scratch.references[row + r];
    float* total = scratch.totals + (row + r) * static_cast<std::int64_t>(kTotalLanes);
    // All scores so far are -inf: the weights are zero, not e^(-inf + inf).
    const VecF32 sum =
        write_weights(scratch.scores + r * stride, columns, reference == kLowest ? 0.0F : reference,
                      scratch.weights + r * stride);
    hn::StoreU(first ? sum : hn::Add(hn::LoadU(F32(), total), sum), F32(), total);
  }
  linear::Strip<T> to_output{
      scratch.weights, stride, kStep<T>, (block.count + kStep<T> - 1) / kStep<T> * kStep<T>,
      block.values,    output, width,    !first};
  for (std::int64_t column = 0; column < width; column += linear::kPanelColumns) {
    strips.template multiply<linear::kPanelColumns>(to_output, rows);
    to_output.panel += block.next_values;
    to_output.c += linear::kPanelColumns;
  }
}

/// Writes one query and head in the form that merge_parts takes.
template <class T>
HWY_INLINE void write_part(const float* output, const float* total, float reference,
                           std::int64_t head_dim, float* part) {
  for (std::int64_t c = 0; c < head_dim; c += static_cast<std::int64_t>(lanes()))
    give(load(output + c), part + c, head_dim - c);
  part[head_dim] = sum_of_lanes(load(total));
  part[head_dim + 1] = reference - kReferenceMargin<T>;
}

/// y = output / total of one query and head.
template <class T>
HWY_INLINE void write_output(const float* output, const float* total, std::int64_t head_dim, T* y) {
  const VecF32 factor = hn::Set(F32(), 1.0F / sum_of_lanes(load(total)));
  for (std::int64_t c = 0; c < head_dim; c += static_cast<std::int64_t>(lanes()))
    give(hn::Mul(load(output + c), factor), y + c, head_dim - c);
}

/// Reads ahead the group of queries that follows `rows` of them; rows lie far apart, which the processor
/// does not foresee.
template <class T>
HWY_INLINE void prefetch_group(const T* q, std::int64_t q_stride, std::int64_t rows,
                               std::int64_t rows_behind, std::int64_t head_dim) {
  for (std::int64_t row = 0; row < rows && row < rows_behind; ++row)
    prefetch_row(q + (rows + row) * q_stride, head_dim);
}

/// Strips: VectorStrips, or TileStrips for bfloat16 and heads of at least 32 columns.
template <class T, class Strips>
void attend_of(Strips& strips, const softmax_attention::AttendParams<T>& p) {
  constexpr softmax_attention::Blocking kBlocking =
      Strips::kRows == softmax_attention::kByTiles.rows ? softmax_attention::kByTiles
                                                        : softmax_attention::kByVectors;
  constexpr std::int64_t kRows = kBlocking.rows;
  const std::int64_t d = p.shape.head_dim;
  const std::int64_t num_tokens = p.shape.num_tokens;
  const std::int64_t panels = linear::panels_of(num_tokens);
  if (num_tokens <= 0 || p.rows <= 0) return;
  const std::int64_t block_keys = softmax_attention::even_block_keys(num_tokens, kBlocking.keys);
  const Scratch<T> scratch(p.scratch, d, kBlocking);
  const std::int64_t words = softmax_attention::sees_words(num_tokens);
  // With a single block, a strip's output is complete while it still is in L1.
  const std::int64_t group_rows = block_keys >= num_tokens ? kRows : kGroupRows;
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    const T* keys = p.keys + head * panels * linear::panel_size<T>(d);
    const T* values = p.values + head * (scratch.width / linear::kPanelColumns) *
                                     linear::panel_size<T>(num_tokens);
    for (std::int64_t group = 0; group < p.rows; group += group_rows) {
      const std::int64_t rows = p.rows - group < group_rows ? p.rows - group : group_rows;
      const T* q = p.q + group * p.q_stride + head * d;
      prefetch_group(q, p.q_stride, rows, p.rows - group - rows, d);
      for (std::int64_t key = 0; key < num_tokens; key += block_keys) {
        const KeyBlock<T> block{num_tokens - key < block_keys ? num_tokens - key : block_keys,
                                keys + key / linear::kPanelColumns * linear::panel_size<T>(d),
                                values + key * linear::kPanelColumns,
                                linear::panel_size<T>(num_tokens),
                                nullptr,
                                words};
        for (std::int64_t row = 0; row < rows; row += kRows) {
          const int strip_rows = static_cast<int>(rows - row < kRows ? rows - row : kRows);
          KeyBlock<T> seen = block;
          if (p.sees != nullptr)
            seen.sees =
                p.sees + (group + row) * words + key / static_cast<std::int64_t>(kScoreGroup);
          seen = seen_keys(seen, strip_rows, d);
          if (seen.count > 0)
            attend_block(strips, q + row * p.q_stride, p.q_stride, strip_rows, d, seen, key == 0,
                         scratch, row);
          else if (key == 0)
            clear_sums(scratch, row, strip_rows);
        }
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const float* output = scratch.outputs + row * scratch.width;
        const float* total = scratch.totals + row * static_cast<std::int64_t>(kTotalLanes);
        const std::int64_t to = group + row;
        if (p.part != nullptr)
          write_part<T>(output, total, scratch.references[row], d,
                        p.part + (to * p.shape.num_heads + head) * (d + 2));
        else
          write_output(output, total, d, p.y + to * p.y_stride + head * d);
      }
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
