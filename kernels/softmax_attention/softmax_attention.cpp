#include "kernels/softmax_attention/softmax_attention.h"

#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_attention/softmax_attention.cpp"
// clang-format off: the first include repeats the rest of the file.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/amx/amx_tiles.h"
#include "kernels/softmax_attention/attend-inl.h"
#include "kernels/softmax_attention/attend_bytes-inl.h"
#include "kernels/softmax_attention/pack-inl.h"
#include "kernels/softmax_attention/pack_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using softmax_attention::Products;

void attend_float32(const softmax_attention::AttendParams<float>& p) {
  if (p.shape.products == Products::bytes) return attend_bytes_of(p);
  VectorStrips strips;
  attend_of(strips, p);
}
void attend_bfloat16(const softmax_attention::AttendParams<BFloat16>& p) {
  if (p.shape.products == Products::bytes) return attend_bytes_of(p);
#if HYDRASCOPE_HAS_AVX512  // every processor that has AMX has it
  if (softmax_attention::multiplies_by_tiles<BFloat16>(p.shape.head_dim)) {
    amx::AmxTiles tiles;
    TileStrips<amx::AmxTiles> strips(tiles);
    return attend_of(strips, p);
  }
#endif
  VectorStrips strips;
  attend_of(strips, p);
}

template <class T>
void pack_of(const softmax_attention::PackParams<T>& p) {
  if (p.shape.products == Products::bytes)
    return pack_by(p, [&](const T* k, const T* v, std::int64_t first, std::int64_t rows)
                          HWY_ATTR { pack_byte_tokens(k, v, first, rows, p); });
  pack_by(p, [&](const T* k, const T* v, std::int64_t first, std::int64_t rows)
                 HWY_ATTR { pack_tokens(k, v, first, rows, p); });
}
bool has_byte_products() {
#if HYDRASCOPE_MULTIPLIES_BYTES
  return multiplies_bytes();
#else
  return false;
#endif
}

HYDRASCOPE_STORED_KERNELS(pack, pack_of, softmax_attention::PackParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::softmax_attention {

HWY_EXPORT(has_byte_products);
bool bytes_are_faster(std::int64_t head_dim) {
  return HWY_DYNAMIC_DISPATCH(has_byte_products)() && !multiplies_by_tiles<BFloat16>(head_dim);
}

template <class T>
std::size_t keys_size(const Shape& shape) {
  const std::int64_t panels = shape.num_heads * linear::panels_of(shape.num_tokens);
  if (shape.products == Products::bytes)
    return static_cast<std::size_t>(panels * key_panel_bytes(shape.head_dim)) / sizeof(T);
  return static_cast<std::size_t>(panels * linear::panel_size<T>(shape.head_dim));
}
template <class T>
std::size_t values_size(const Shape& shape) {
  const std::int64_t panels = shape.num_heads * linear::panels_of(shape.head_dim);
  if (shape.products == Products::bytes)
    return static_cast<std::size_t>(panels * value_panel_bytes(shape.num_tokens)) / sizeof(T);
  return static_cast<std::size_t>(panels * linear::panel_size<T>(shape.num_tokens));
}
template std::size_t keys_size<float>(const Shape&);
template std::size_t keys_size<BFloat16>(const Shape&);
template std::size_t values_size<float>(const Shape&);
template std::size_t values_size<BFloat16>(const Shape&);

template <class T>
std::size_t scratch_bytes(const Shape& shape) {
  if (shape.products == Products::bytes) return ByteScratch(nullptr, shape.head_dim).bytes;
  // The larger of both, so that it serves whichever way `attend` takes.
  return Scratch<T>(nullptr, shape.head_dim, sizeof(T) == 2 ? kByTiles : kByVectors).bytes;
}
template std::size_t scratch_bytes<float>(const Shape&);
template std::size_t scratch_bytes<BFloat16>(const Shape&);

HYDRASCOPE_DISPATCH(pack, pack, PackParams)
HYDRASCOPE_DISPATCH(attend, attend, AttendParams)

}  // namespace hydrascope::kernels::softmax_attention
#endif  // HWY_ONCE
