#include "kernels/linear_attention/linear_attention.h"

#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_attention/linear_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/amx/amx_tiles.h"
#include "kernels/linear_attention/accumulate-inl.h"
#include "kernels/linear_attention/combine-inl.h"
#include "kernels/linear_attention/read_out-inl.h"

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void linear_attention_accumulate_float32(const linear_attention::AccumulateParams<float>& p) {
  accumulate_any(VectorStrips(), p);
}
void linear_attention_read_out_float32(const linear_attention::ReadOutParams<float>& p) {
  read_out_any(VectorStrips(), p);
}
/// Calls `function` with the strips of bfloat16 that this processor multiplies fastest.
template <class Function>
void with_strips(const Function& function) {
#if HYDRASCOPE_HAS_AVX512  // every processor that has AMX has it
  if (device::may_use(device::MatrixInstruction::amx_bf16)) {
    amx::AmxTiles tiles;
    return function(TileStrips<amx::AmxTiles>(tiles));
  }
#endif
  function(VectorStrips());
}
void linear_attention_accumulate_bfloat16(const linear_attention::AccumulateParams<BFloat16>& p) {
  with_strips([&](auto&& strips) { accumulate_any(strips, p); });
}
void linear_attention_read_out_bfloat16(const linear_attention::ReadOutParams<BFloat16>& p) {
  with_strips([&](auto&& strips) { read_out_any(strips, p); });
}
HYDRASCOPE_STORED_KERNELS(linear_attention_combine, combine_heads, linear_attention::CombineParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace hydrascope::kernels::linear_attention {

std::size_t sums_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.num_heads * shape.features() * (shape.head_dim + 2));
}

void clear(const Shape& shape, float* sums) {
  float* maximum = sums_of_head(shape, sums, 0).maximum;
  std::fill(sums, maximum, 0.0F);
  std::fill_n(maximum, shape.num_heads * shape.features(), -std::numeric_limits<float>::infinity());
}

template <class T>
std::size_t scratch_bytes(const Shape& shape, std::int64_t rows) {
  // A shorter tile may be cut into longer chunks: the longest chunk for `rows` counts.
  return std::max(KeyScratch<T>(shape, std::min(rows, kKeyRows)).bytes,
                  QueryScratch<T>(shape).bytes);
}
template std::size_t scratch_bytes<float>(const Shape&, std::int64_t);
template std::size_t scratch_bytes<BFloat16>(const Shape&, std::int64_t);

template <class T>
std::size_t state_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.num_heads) * HeadState<T>(shape).bytes;
}
template std::size_t state_bytes<float>(const Shape&);
template std::size_t state_bytes<BFloat16>(const Shape&);

HYDRASCOPE_DISPATCH(accumulate, linear_attention_accumulate, AccumulateParams)
HYDRASCOPE_DISPATCH(combine, linear_attention_combine, CombineParams)
HYDRASCOPE_DISPATCH(read_out, linear_attention_read_out, ReadOutParams)

}  // namespace hydrascope::kernels::linear_attention
#endif  // HWY_ONCE
