// How the maps' CUDA kernels share their work.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::attention_map::cuda {

inline constexpr int kThreads = 256;
/// Rows of a warp that go through a pass together: w or a gradient is loaded once for them, and
/// eight packs per lane are on their way (32 KB per block), which hides the memory's latency.
inline constexpr int kRowsOfWarp = 4;
inline constexpr int kRowsOfBlock = kThreads / 32 * kRowsOfWarp;
/// Lanes that share a head of a row: 64 values of 16 bits are eight packs.
inline constexpr int kLanesOfHead = 8;
/// Rows that such a group takes one after the other: what is known of the query's head serves all.
inline constexpr int kRowsOfGroup = 4;
inline constexpr int kScoreRowsOfBlock = kThreads / kLanesOfHead * kRowsOfGroup;
/// One block per head normalises: a head is a row of at most some 10^5 values, in L2.
inline constexpr int kNormaliseThreads = 1024;

constexpr device::Geometry rows_geometry(std::int64_t rows) {
  return {{device::ceil_div(rows, kRowsOfBlock)}, {kThreads}};
}
constexpr device::Geometry scores_geometry(std::int64_t rows, std::int64_t heads) {
  return {{device::ceil_div(rows, kScoreRowsOfBlock), heads}, {kThreads}};
}
constexpr device::Geometry normalise_geometry(std::int64_t heads) {
  return {{heads}, {kNormaliseThreads}};
}
constexpr device::Geometry mean_geometry(std::int64_t rows) {
  return {{device::ceil_div(rows, kThreads)}, {kThreads}};
}

}  // namespace hydrascope::kernels::attention_map::cuda
