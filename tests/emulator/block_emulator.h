// The CUDA language on the host: a kernel written with kernels/device/*.cuh, compiled by g++, runs
// here block by block, one fiber per thread, so that the sanitizers see every access it makes. See
// README.md for what is checked and what cannot be.
//
// Misuse (a barrier that not all threads reach, a warp collective with a missing lane, ...) ends
// the launch with hydrascope::Error(internal) that names kernel, block, thread and line.
#pragma once

#include "kernels/device/geometry.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <typeinfo>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// __restrict__ is g++'s own.

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
/// The place of the thread that runs; set at every switch.
inline dim3 threadIdx;
inline dim3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

namespace emulator {

using Site = std::source_location;

/// In which order blocks, warps and lanes run from the next launch on: 0 ascending, 1 descending,
/// up to 99 shuffled anew after every pass, from 100 on shuffled with every warp running ahead to
/// its next block barrier before another one starts. All are orders that a GPU may choose.
void set_schedule(unsigned seed);

/// `body` is what a thread of the kernel does.
template <class Body>
void launch(const char* name, const hydrascope::kernels::device::Geometry& geometry,
            const Body& body);

/// The block's shared memory: on the heap, exactly `bytes` long, every word of it NaN at first.
void* block_shared(std::size_t bytes, const std::type_info& type);

void block_barrier(const Site& site);
bool last_block(unsigned* counter, unsigned blocks, const Site& site);

int lane();
// Collectives of all lanes of a warp.
void warp_barrier(const Site& site);
/// `value` of lane `lane ^ mask`.
float shuffle_xor(float value, int mask, const Site& site);

/// Tensor-core products and their loads: kernels/device/tensor_core.cuh says where a lane's words
/// lie.
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  float (*to_float)(std::uint16_t), const Site& site);
void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed, const Site& site);

/// The destination is NaN from now on until copy_wait, which is when the source is read. With
/// `bytes` 0 nothing is read and zeros are written.
void copy_async(void* shared, const void* global, int bytes, const Site& site);
void copy_commit();
void copy_wait(int pending);

// ---- What the template above needs.

void launch_erased(const char* name, const hydrascope::kernels::device::Geometry& geometry,
                   void (*call)(const void*), const void* body);

template <class Body>
void launch(const char* name, const hydrascope::kernels::device::Geometry& geometry,
            const Body& body) {
  launch_erased(
      name, geometry, [](const void* state) { (*static_cast<const Body*>(state))(); }, &body);
}

}  // namespace emulator
