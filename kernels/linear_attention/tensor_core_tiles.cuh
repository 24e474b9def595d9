// Tiles of rows of 64 16-bit values in shared memory and the operands that tensor cores take from
// them. A row is 8 chunks of 16 bytes; chunk c of row r lies at place c ^ (r % 8) of the row. The
// same chunk of 8 neighbouring rows so lies in all 32 banks: no load or store has a bank conflict.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/tensor_core.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear_attention/state.cuh"

#include <bit>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

inline constexpr int kChunk = 8;                    ///< values of 16 bytes
inline constexpr int kRowChunks = kWidth / kChunk;  ///< 8
inline constexpr int kGroups = kWidth / 16;         ///< runs of 16 columns, one instruction's sum

/// Place of a chunk in the tile, in elements.
__device__ __forceinline__ constexpr int place(int row, int chunk) {
  return row * kWidth + (chunk ^ row % kRowChunks) * kChunk;
}

/// 1 in T.
template <class T>
inline constexpr std::uint32_t kOne = sizeof(T) == 2 ? 0x3f80 : 0;
template <>
inline constexpr std::uint32_t kOne<Float16> = 0x3c00;

/// The two values of a word.
template <class T>
__device__ __forceinline__ void unpack(std::uint32_t word, float (&values)[2]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    values[0] = std::bit_cast<float>(word << 16);
    values[1] = std::bit_cast<float>(word & 0xffff0000U);
  } else {
    T low;
    T high;
    low.bits = static_cast<std::uint16_t>(word & 0xffffU);
    high.bits = static_cast<std::uint16_t>(word >> 16);
    values[0] = device::to_float(low);
    values[1] = device::to_float(high);
  }
}

/// Left operand: 16 rows from `first`, columns 16 group ... of a tile.
template <class T>
__device__ __forceinline__ void load_left(std::uint32_t (&words)[4], const T* tile, int first,
                                          int group) {
  const int lane = device::lane_index();
  device::load_matrices<false>(words, tile + place(first + lane % 16, 2 * group + lane / 16));
}
/// Left operands of all columns of the first 16 rows.
template <class T>
__device__ __forceinline__ void load_left_rows(std::uint32_t (&words)[kGroups][4], const T* tile) {
#pragma unroll
  for (int columns = 0; columns < kGroups; ++columns) load_left(words[columns], tile, 0, columns);
}
/// Left operand of the transposed tile: its columns 16 group ... as rows, its rows from `first` to
/// sum over.
template <class T>
__device__ __forceinline__ void load_left_transposed(std::uint32_t (&words)[4], const T* tile,
                                                     int first, int group) {
  const int lane = device::lane_index();
  device::load_matrices<true>(
      words, tile + place(first + lane / 16 * 8 + lane % 8, 2 * group + lane / 8 % 2));
}
/// Right operands of two neighbouring products: rows from `first` to sum over, columns 16 group ...
template <class T>
__device__ __forceinline__ void load_right(std::uint32_t (&words)[4], const T* tile, int first,
                                           int group) {
  const int lane = device::lane_index();
  device::load_matrices<true>(words, tile + place(first + lane % 16, 2 * group + lane / 16));
}
/// Two neighbouring products of one left operand.
template <class T>
__device__ __forceinline__ void multiply_add_both(float (&d0)[4], float (&d1)[4],
                                                  const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&words)[4]) {
  const std::uint32_t b0[2] = {words[0], words[1]};
  const std::uint32_t b1[2] = {words[2], words[3]};
  device::multiply_add<T>(d0, a, b0);
  device::multiply_add<T>(d1, a, b1);
}

/// The first row of one image's head.
template <class T>
__device__ __forceinline__ T* head_of(const Rows<T>& rows, std::int64_t image, int head) {
  return rows.data + image * rows.image_stride + head * kWidth;
}

/// Starts copies of `count` rows from `first` of a head into a tile, by `threads` threads. Rows
/// from `end` on become zeros or, with `repeat_last`, copies of row end - 1.
template <int count, int threads, bool repeat_last, class T>
__device__ __forceinline__ void start_rows(T* tile, const T* head, std::int64_t stride,
                                           std::int64_t first, std::int64_t end, int thread) {
  static_assert(count * kRowChunks % threads == 0);
#pragma unroll
  for (int i = 0; i < count * kRowChunks / threads; ++i) {
    const int row = (thread + i * threads) / kRowChunks;
    const int chunk = thread % kRowChunks;
    const bool inside = first + row < end;
    const std::int64_t from = inside ? first + row : end - 1;
    device::copy_async(tile + place(row, chunk), head + from * stride + chunk * kChunk,
                       repeat_last || inside);
  }
}

/// Puts a word of a result into a warp's 16 rows: rows g, g + 8 (`row` 0, 1), columns
/// 8 chunk + p ...
template <class T>
__device__ __forceinline__ void put_word(T* tile, int row, int chunk, std::uint32_t word) {
  const int lane = device::lane_index();
  device::store_word(tile + place(lane / 4 + 8 * row, chunk) + 2 * (lane % 4), word);
}
/// Writes a warp's 16 rows before `end` to a head, whole rows of 128 bytes at a time; a collective
/// of the warp, which may change the tile afterwards.
template <class T>
__device__ __forceinline__ void write_rows(const T* tile, T* head, std::int64_t stride,
                                           std::int64_t first, std::int64_t end) {
  device::warp_sync();
  const int lane = device::lane_index();
  const int chunk = lane % kRowChunks;
#pragma unroll
  for (int i = 0; i < kWarpRows / 4; ++i) {
    const int row = 4 * i + lane / kRowChunks;
    if (first + row < end)
      device::store_pack(head + (first + row) * stride + chunk * kChunk,
                         device::load_pack<kChunk>(tile + place(row, chunk)));
  }
  device::warp_sync();
}

/// F rows of 64 float32 sums on their way into a tile, shared among the block's threads: they are
/// read before their factors are known, so that one wait is enough for all.
template <int features>
struct HeldSums {
  static constexpr int kPacks = features * kWidth / 4 / kThreads;
  device::Pack<float, 4> packs[kPacks];

  __device__ __forceinline__ void load(const float* sums) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i)
      packs[i] = device::load_pack<4>(sums + 4 * (static_cast<int>(threadIdx.x) + i * kThreads));
  }
  /// The row of pack i.
  __device__ __forceinline__ static int row_of(int i) {
    return (static_cast<int>(threadIdx.x) + i * kThreads) / (kWidth / 4);
  }
  /// Into the tile, row f times factors[f], rounded to T; the caller synchronises.
  template <class T>
  __device__ __forceinline__ void put(T* tile, const float* factors) const {
    const int column = static_cast<int>(threadIdx.x) % (kWidth / 4) * 4;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const float factor = factors[row_of(i)];
      float values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) values[j] = packs[i].values[j] * factor;
      device::store_pack(tile + place(row_of(i), column / kChunk) + column % kChunk,
                         device::from_floats<T>(values));
    }
  }
};

}  // namespace hydrascope::kernels::linear_attention::cuda
