// AMX in plain C++: what Intel's manual (volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO,
// TILERELEASE, TDPBF16PS, TDPBUSD) says each instruction does to the registers of one thread, and
// when it faults. The kernels of kernels/amx are proven on it where the processor has no tiles.
//
// Arithmetic: tdpbf16ps sums the products of even k and those of odd k apart, each by fused
// multiply-add, adds the two sums, and adds that to the destination; subnormal operands and results
// are zero; to nearest even whatever MXCSR says. (Which NaN comes out is not emulated.) tdpbusd
// sums in int32 and wraps.
// Not emulated: restarting at start_row after a page fault; a configuration with it is refused.
#pragma once

#include "kernels/amx/tile_configuration.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <unordered_set>
#include <vector>

namespace hydrascope::kernels::amx {

/// An instruction that would be #UD, #GP or a page fault.
class TileFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class EmulatedTiles {
 public:
  /// How often these instructions ran.
  struct Counts {
    std::int64_t configure = 0;
    std::int64_t release = 0;
    std::int64_t dot = 0;
  };

  /// From the first call on, loads and prefetches must stay within these ranges, or read rows that a
  /// tile was stored to, and stores within the writable ones (from the first of those on). A prefetch
  /// never faults: the kernels are to ask for nothing that they do not read.
  void allow_reading(const void* first, std::size_t bytes);
  void allow_writing(void* first, std::size_t bytes);

  void configure(const TileConfiguration& configuration);
  void release() noexcept;
  template <int kTile>
  void zero(Tile<kTile>) {
    zero(kTile);
  }
  template <int kTile>
  void load(Tile<kTile>, const void* from, std::int64_t stride) {
    load(kTile, static_cast<const std::byte*>(from), stride);
  }
  template <int kTile>
  void store(Tile<kTile>, void* to, std::int64_t stride) {
    store(kTile, static_cast<std::byte*>(to), stride);
  }
  template <int kSum, int kA, int kB>
  void dot_bfloat16(Tile<kSum>, Tile<kA>, Tile<kB>) {
    dot_bfloat16(kSum, kA, kB);
  }
  template <int kSum, int kA, int kB>
  void dot_uint8_int8(Tile<kSum>, Tile<kA>, Tile<kB>) {
    dot_uint8_int8(kSum, kA, kB);
  }

  void prefetch(const void* line);

  /// The same by number, for who decodes instructions.
  void zero(int tile);
  void load(int tile, const std::byte* from, std::int64_t stride);
  void store(int tile, std::byte* to, std::int64_t stride);
  void dot_bfloat16(int sum, int a, int b);
  void dot_uint8_int8(int sum, int a, int b);

  [[nodiscard]] bool configured() const noexcept { return configuration_.palette != 0; }
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  struct Range {
    const std::byte* first;
    const std::byte* last;
    bool writable;
  };
  void check_usable(int tile, const char* instruction) const;
  void check_product(int sum, int a, int b, const char* instruction) const;
  void check_memory(const std::byte* row, std::size_t bytes, const char* instruction,
                    bool write = false) const;

  TileConfiguration configuration_;
  alignas(64) std::byte tiles_[kTiles][kTileRows][kTileRowBytes] = {};
  std::vector<Range> ranges_;
  std::unordered_set<const std::byte*> stored_;
  Counts counts_;
};

}  // namespace hydrascope::kernels::amx
