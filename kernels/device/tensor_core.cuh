// Tensor-core products and the loads that feed them, from sm_80 on, as collectives of a warp (PTX
// ISA, "Warp Level Matrix Multiply-Accumulate Instructions"). The emulator carries them out lane by
// lane.
//
// Fragments of mma.m16n8k16, for lane l with g = l / 4 and p = 2 (l % 4):
//   A (16 x 16, row-major)  word 0: A[g][p..p+1]    word 1: A[g+8][p..p+1]
//                           word 2: A[g][p+8..p+9]  word 3: A[g+8][p+8..p+9]
//   B (16 x 8)              word 0: B[p..p+1][g]    word 1: B[p+8..p+9][g]
//   C, D (16 x 8, float32)  0, 1: C[g][p..p+1]      2, 3: C[g+8][p..p+1]
// so that two neighbouring D tiles, rounded, are one A fragment.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::device {

#ifdef __CUDACC__

/// d += a b in float32; T (BFloat16 or Float16) is the type of the values in words of a and b.
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void multiply_add<BFloat16>(float (&d)[4], const std::uint32_t (&a)[4],
                                                       const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void multiply_add<Float16>(float (&d)[4], const std::uint32_t (&a)[4],
                                                      const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8 x 8 matrices of 16-bit values from shared memory: lane l gives the address of row l % 8
/// of matrix l / 8 (16 bytes, aligned) and gets, in words[m], elements [g][p..p+1] of matrix m;
/// with `transposed` elements [p..p+1][g].
template <bool transposed>
__device__ __forceinline__ void load_matrices(std::uint32_t (&words)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
}

/// Copies 16 bytes (both addresses aligned to them) from global to shared memory in the background;
/// with `inside` false nothing is read and zeros are written. Not there before copy_wait, and for
/// other threads not before a block_sync after it.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(bytes)
               : "memory");
}
/// Ends a group of this thread's copies.
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/// Waits until at most `pending` of this thread's latest groups are on their way.
template <int pending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

#else

#define HYDRASCOPE_SITE std::source_location site = std::source_location::current()
template <class T>
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  HYDRASCOPE_SITE) {
  emulator::multiply_add(
      d, a, b,
      [](std::uint16_t bits) {
        T value;
        value.bits = bits;
        return static_cast<float>(value);
      },
      site);
}
template <bool transposed>
void load_matrices(std::uint32_t (&words)[4], const void* row, HYDRASCOPE_SITE) {
  emulator::load_matrices(words, row, transposed, site);
}
inline void copy_async(void* shared, const void* global, bool inside, HYDRASCOPE_SITE) {
  emulator::copy_async(shared, global, inside ? 16 : 0, site);
}
inline void copy_commit() { emulator::copy_commit(); }
template <int pending>
void copy_wait() {
  emulator::copy_wait(pending);
}
#undef HYDRASCOPE_SITE

#endif

}  // namespace hydrascope::kernels::device
