// The instructions of AMX, one function each (Intel's manual, volume 2). They are inline assembly
// like the intrinsics of g++ 12, but templates can pass their tile numbers and the compiler knows
// the memory they touch. Call them only if device::may_use allows AMX. Twin: EmulatedTiles; test:
// tests/kernels/amx/emulated_tiles_test.cpp.
#pragma once

#include "kernels/amx/tile_configuration.h"

#include <cstdint>

namespace hydrascope::kernels::amx {

class AmxTiles {
 public:
  void configure(const TileConfiguration& configuration) {
    asm volatile("ldtilecfg %0" : : "m"(configuration) : "memory");
  }
  void release() { asm volatile("tilerelease" : : : "memory"); }

  template <int kTile>
  void zero(Tile<kTile>) {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows `stride` bytes apart.
  template <int kTile>
  void load(Tile<kTile>, const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(Tile<kTile>, void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  /// sum += a b: pairs of bfloat16 into float32.
  template <int kSum, int kA, int kB>
  void dot_bfloat16(Tile<kSum>, Tile<kA>, Tile<kB>) {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  /// sum += a b: quadruples of uint8 (a) and int8 (b) into int32.
  template <int kSum, int kA, int kB>
  void dot_uint8_int8(Tile<kSum>, Tile<kA>, Tile<kB>) {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};

}  // namespace hydrascope::kernels::amx
