#include "tests/kernels/amx/emulated_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

namespace hydrascope::kernels::amx {
namespace {

[[noreturn]] void fault(const std::string& instruction, const std::string& what) {
  throw TileFault(instruction + ": " + what);
}

template <class T>
T element(const std::byte* row, int index) {
  T value;
  std::memcpy(&value, row + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void set_element(std::byte* row, int index, T value) {
  std::memcpy(row + static_cast<std::size_t>(index) * sizeof(T), &value, sizeof(T));
}

/// Subnormal numbers are zero, as operands and as results.
float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
float bfloat16(const std::byte* row, int index) {
  const std::uint32_t word = std::uint32_t{element<std::uint16_t>(row, index)} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return flushed(value);
}
/// The product has 16 bits and the sum is rounded to 53 before 24: as if it were rounded once
/// (53 >= 2 * 24 + 2).
float fused(float a, float b, float sum) {
  return flushed(static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                                    static_cast<double>(sum)));
}

template <class T, std::size_t kCount>
bool all_zero(const T (&values)[kCount]) {
  return std::all_of(values, values + kCount, [](T value) { return value == 0; });
}

}  // namespace

void EmulatedTiles::allow_reading(const void* first, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(first);
  ranges_.push_back({from, from + bytes, false});
}

void EmulatedTiles::allow_writing(void* first, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(first);
  ranges_.push_back({from, from + bytes, true});
}

void EmulatedTiles::configure(const TileConfiguration& c) {
  ++counts_.configure;
  if (c.palette == 0) return release();
  if (c.palette != 1) fault("ldtilecfg", "palette " + std::to_string(c.palette));
  if (c.start_row != 0) fault("ldtilecfg", "start_row is not emulated");
  if (!all_zero(c.reserved) || !all_zero(c.reserved_row_bytes) || !all_zero(c.reserved_rows))
    fault("ldtilecfg", "reserved bytes are not zero");
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::string name = "tile " + std::to_string(tile);
    if (c.row_bytes[tile] > kTileRowBytes) fault("ldtilecfg", name + " has rows above 64 bytes");
    if (c.rows[tile] > kTileRows) fault("ldtilecfg", name + " has more than 16 rows");
    if ((c.rows[tile] == 0) != (c.row_bytes[tile] == 0))
      fault("ldtilecfg", name + " has rows without bytes or bytes without rows");
  }
  configuration_ = c;
  std::memset(tiles_, 0, sizeof tiles_);
}

void EmulatedTiles::release() noexcept {
  ++counts_.release;
  configuration_ = {};
  std::memset(tiles_, 0, sizeof tiles_);
}

void EmulatedTiles::zero(int tile) {
  check_usable(tile, "tilezero");
  std::memset(tiles_[tile], 0, sizeof tiles_[tile]);
}

void EmulatedTiles::load(int tile, const std::byte* from, std::int64_t stride) {
  check_usable(tile, "tileloadd");
  std::memset(tiles_[tile], 0, sizeof tiles_[tile]);
  for (int row = 0; row < configuration_.rows[tile]; ++row, from += stride) {
    check_memory(from, configuration_.row_bytes[tile], "tileloadd");
    std::memcpy(tiles_[tile][row], from, configuration_.row_bytes[tile]);
  }
}

void EmulatedTiles::store(int tile, std::byte* to, std::int64_t stride) {
  check_usable(tile, "tilestored");
  for (int row = 0; row < configuration_.rows[tile]; ++row, to += stride) {
    check_memory(to, configuration_.row_bytes[tile], "tilestored", true);
    if (!ranges_.empty()) stored_.insert(to);
    std::memcpy(to, tiles_[tile][row], configuration_.row_bytes[tile]);
  }
}

void EmulatedTiles::prefetch(const void* line) {
  check_memory(static_cast<const std::byte*>(line), 64, "prefetch");
}

void EmulatedTiles::dot_bfloat16(int sum, int a, int b) {
  check_product(sum, a, b, "tdpbf16ps");
  ++counts_.dot;
  constexpr int kPairs = kTileRowBytes / 4;
  float x[kTileRows][2 * kPairs];
  float y[kTileRows][2 * kPairs];
  for (int row = 0; row < kTileRows; ++row) {
    for (int i = 0; i < 2 * kPairs; ++i) {
      x[row][i] = bfloat16(tiles_[a][row], i);
      y[row][i] = bfloat16(tiles_[b][row], i);
    }
  }
  for (int m = 0; m < configuration_.rows[sum]; ++m) {
    for (int n = 0; n < configuration_.row_bytes[sum] / 4; ++n) {
      float even = 0;
      float odd = 0;
      for (int k = 0; k < configuration_.rows[b]; ++k) {
        even = fused(x[m][2 * k], y[k][2 * n], even);
        odd = fused(x[m][2 * k + 1], y[k][2 * n + 1], odd);
      }
      const float before = flushed(element<float>(tiles_[sum][m], n));
      set_element(tiles_[sum][m], n, flushed(before + flushed(even + odd)));
    }
  }
}

void EmulatedTiles::dot_uint8_int8(int sum, int a, int b) {
  check_product(sum, a, b, "tdpbusd");
  ++counts_.dot;
  for (int m = 0; m < configuration_.rows[sum]; ++m) {
    for (int n = 0; n < configuration_.row_bytes[sum] / 4; ++n) {
      auto total = element<std::uint32_t>(tiles_[sum][m], n);
      for (int k = 0; k < configuration_.rows[b]; ++k) {
        for (int i = 0; i < 4; ++i) {
          const int product = element<std::uint8_t>(tiles_[a][m], 4 * k + i) *
                              element<std::int8_t>(tiles_[b][k], 4 * n + i);
          total += static_cast<std::uint32_t>(product);
        }
      }
      set_element(tiles_[sum][m], n, total);
    }
  }
}

void EmulatedTiles::check_usable(int tile, const char* instruction) const {
  if (!configured()) fault(instruction, "tiles are not configured");
  if (configuration_.rows[tile] == 0)
    fault(instruction, "tile " + std::to_string(tile) + " is not configured");
  if (configuration_.row_bytes[tile] % 4 != 0)
    fault(instruction, "rows of tile " + std::to_string(tile) + " are no multiple of 4 bytes");
}

void EmulatedTiles::check_product(int sum, int a, int b, const char* instruction) const {
  for (const int tile : {sum, a, b}) check_usable(tile, instruction);
  if (sum == a || sum == b || a == b) fault(instruction, "one tile in two roles");
  if (configuration_.rows[sum] != configuration_.rows[a])
    fault(instruction, "sum and A differ in rows");
  if (configuration_.row_bytes[sum] != configuration_.row_bytes[b])
    fault(instruction, "sum and B differ in columns");
  if (configuration_.row_bytes[a] / 4 != configuration_.rows[b])
    fault(instruction, "A's columns and B's rows differ");
}

void EmulatedTiles::check_memory(const std::byte* row, std::size_t bytes, const char* instruction,
                                 bool write) const {
  const bool restricted = std::any_of(ranges_.begin(), ranges_.end(),
                                      [&](const Range& r) { return r.writable || !write; });
  if (!restricted || (!write && stored_.contains(row))) return;
  // std::less compares pointers of different objects too.
  const std::less_equal<const std::byte*> not_behind;
  for (const Range& range : ranges_) {
    if ((range.writable || !write) && not_behind(range.first, row) &&
        not_behind(row + bytes, range.last))
      return;
  }
  fault(instruction, "a row outside of the memory it may use");
}

}  // namespace hydrascope::kernels::amx
