// The instructions of AMX, one function each (Intel's manual, volume 2). They are inline assembly
// like the intrinsics of g++ 12, but templates can pass their tile numbers and the compiler knows
// the memory they touch. Call them only if device::may_use allows AMX, which it does on x86-64
// alone. Twin: EmulatedTiles; test: tests/kernels/amx/emulated_tiles_test.cpp.
#pragma once

#include "kernels/amx/tile_configuration.h"

#include <cstdint>
#include <cstdlib>

// Other processors compile the functions' users too.
#if defined(__x86_64__)
#define HYDRASCOPE_AMX(...) asm volatile(__VA_ARGS__)
#else
#define HYDRASCOPE_AMX(...) std::abort()
#endif

namespace hydrascope::kernels::amx {

class AmxTiles {
 public:
  void configure([[maybe_unused]] const TileConfiguration& configuration) {
    HYDRASCOPE_AMX("ldtilecfg %0" : : "m"(configuration) : "memory");
  }
  void release() { HYDRASCOPE_AMX("tilerelease" : : : "memory"); }

  template <int kTile>
  void zero(Tile<kTile>) {
    HYDRASCOPE_AMX("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows `stride` bytes apart.
  template <int kTile>
  void load(Tile<kTile>, [[maybe_unused]] const void* from, [[maybe_unused]] std::int64_t stride) {
    HYDRASCOPE_AMX("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(stride), "i"(kTile)
                   : "memory");
  }
  template <int kTile>
  void store(Tile<kTile>, [[maybe_unused]] void* to, [[maybe_unused]] std::int64_t stride) {
    HYDRASCOPE_AMX("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(stride), "i"(kTile)
                   : "memory");
  }
  /// sum += a b: pairs of bfloat16 into float32.
  template <int kSum, int kA, int kB>
  void dot_bfloat16(Tile<kSum>, Tile<kA>, Tile<kB>) {
    HYDRASCOPE_AMX("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  /// sum += a b: quadruples of uint8 (a) and int8 (b) into int32.
  template <int kSum, int kA, int kB>
  void dot_uint8_int8(Tile<kSum>, Tile<kA>, Tile<kB>) {
    HYDRASCOPE_AMX("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  /// Asks for a cache line in L2.
  void prefetch(const void* line) { __builtin_prefetch(line, 0, 2); }
};

}  // namespace hydrascope::kernels::amx

#undef HYDRASCOPE_AMX
