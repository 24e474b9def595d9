// Tile registers as the kernels of this folder see them: their names, their configuration, and the
// session in which a thread may use them.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::amx {

inline constexpr int kTiles = 8;
inline constexpr int kTileRows = 16;               ///< at most
inline constexpr std::int64_t kTileRowBytes = 64;  ///< at most

/// The operand of ldtilecfg (Intel's manual, volume 2, LDTILECFG, "Memory Area Layout").
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 0;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[kTiles] = {};
  std::uint16_t reserved_row_bytes[8] = {};
  std::uint8_t rows[kTiles] = {};
  std::uint8_t reserved_rows[8] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

/// A tile register: instructions carry its number, so that it is part of the type.
template <int kIndex>
struct Tile {
  static_assert(kIndex >= 0 && kIndex < kTiles);
};

/// Four sums, two tiles of A's rows, two of B's columns (tile_product.h).
inline constexpr Tile<0> kSum0{};
inline constexpr Tile<1> kSum1{};
inline constexpr Tile<2> kSum2{};
inline constexpr Tile<3> kSum3{};
inline constexpr Tile<4> kFirstA{};
inline constexpr Tile<5> kSecondA{};
inline constexpr Tile<6> kFirstB{};
inline constexpr Tile<7> kSecondB{};

/// `rows` (1 to 16) of A's tiles. The sums have as many, B has 16 groups of k; every row has 64 bytes.
constexpr TileConfiguration configuration_for(int rows) {
  TileConfiguration configuration;
  configuration.palette = 1;
  for (int tile = 0; tile < kTiles; ++tile) {
    configuration.row_bytes[tile] = static_cast<std::uint16_t>(kTileRowBytes);
    configuration.rows[tile] = static_cast<std::uint8_t>(tile < 6 ? rows : kTileRows);
  }
  return configuration;
}

/// The tiles are configured while it lives and released when it ends: the system saves configured
/// tiles at every switch of context, and LibTorch's oneDNN uses the same registers.
template <class Tiles>
class TileSession {
 public:
  TileSession(Tiles& tiles, int rows) : tiles_(tiles), rows_(rows) {
    tiles_.configure(configuration_for(rows));
  }
  ~TileSession() { tiles_.release(); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

  [[nodiscard]] Tiles& tiles() { return tiles_; }
  /// Other rows from now on; the tiles' contents are lost if they differ.
  void configure(int rows) {
    if (rows == rows_) return;
    rows_ = rows;
    tiles_.configure(configuration_for(rows));
  }

 private:
  Tiles& tiles_;
  int rows_;
};

}  // namespace hydrascope::kernels::amx
