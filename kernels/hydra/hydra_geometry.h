// How Hydra's CUDA kernels share their work, as plain numbers that a test without a GPU asks for.
#pragma once

#include "kernels/device/geometry.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;

/// Packs of 16 bytes that a lane holds of a row; 0 where no kernel holds that much, or where a row
/// does not consist of packs. Few sizes, because each is compiled for seven architectures, and a
/// lane's packs after the row cost a predicate, not a transfer: D = 384 in bfloat16 has the same
/// two rows in flight in three packs as it would have in two.
constexpr int packs_of(std::int64_t dim, int pack_size) {
  if (dim % pack_size != 0) return 0;
  for (const int packs : {1, 3, 4, 6})
    if (dim <= std::int64_t{32} * packs * pack_size) return packs;
  return 0;
}

/// Rows of two tensors that a warp asks for before it waits: 48 registers a lane at most, beside
/// the sums of a row. Two blocks per multiprocessor then have 48 to 96 KB on their way; the least
/// that hides the latency of an H200's memory is, if that is 0.8 us (an estimate),
/// 4.3 TB/s * 0.8 us / 132 = 26 KB.
constexpr int rows_in_flight(int packs) { return packs == 1 ? 4 : packs <= 3 ? 2 : 1; }
/// How many rows of one tensor a warp loads ahead.
constexpr int gate_rows_in_flight(int packs) { return packs <= 3 ? 4 : 2; }

/// Tokens that one block sums. 32 give each warp two passes at D = 768, and 8161 tokens (1088 x
/// 1920 pixels) 256 blocks, two on each of an H200's 132 multiprocessors: one picture is enough to
/// fill it. Partial sums are then 1/32 of what bfloat16 rows of k and v are, and lie in L2. Longer
/// rows of tokens get longer shares, so that partial sums stay below a megabyte per image at D =
/// 768. A function of the tokens alone: an image's sum must depend neither on its batch nor on the
/// GPU.
inline constexpr std::int64_t kShare = 32;
inline constexpr std::int64_t kMaxShares = 256;
constexpr std::int64_t project_share(std::int64_t tokens) {
  return kShare * std::max<std::int64_t>(1, device::ceil_div(tokens, kShare * kMaxShares));
}
/// Blocks per image; one also where there is no token, which writes the empty sum.
constexpr std::int64_t project_splits(std::int64_t tokens) {
  return std::max<std::int64_t>(1, device::ceil_div(tokens, project_share(tokens)));
}
/// The splits are added by a tree of two levels, of at most 16 sums each. Estimates, not measured:
/// one block alone would take 8 us to read 256 sums of 768 features from L2, two in a row 16 each
/// 1 us.
inline constexpr std::int64_t kGroup = 16;
constexpr std::int64_t project_groups(std::int64_t tokens) {
  return device::ceil_div(project_splits(tokens), kGroup);
}

/// Rows of one block of the kernels that do not sum over tokens.
inline constexpr std::int64_t kRowsOfBlock = 32;

constexpr device::Geometry project_geometry(std::int64_t images, std::int64_t tokens) {
  return {{images * project_splits(tokens)}, {kThreads}};
}
constexpr device::Geometry rows_geometry(std::int64_t images, std::int64_t rows) {
  return {{images * device::ceil_div(rows, kRowsOfBlock)}, {kThreads}};
}

/// The workspace: counters (zero between calls) first, then partial sums (B, splits, D), then what
/// `backward` keeps of dc (B, D).
struct WorkspaceLayout {
  std::int64_t counters_of_image;  ///< one per group, one for the groups
  std::size_t partial;             ///< offsets in bytes
  std::size_t dc;
  std::size_t bytes;
};
constexpr WorkspaceLayout workspace_layout(std::int64_t images, std::int64_t tokens,
                                           std::int64_t dim) {
  const auto aligned = [](std::int64_t bytes) {
    return static_cast<std::size_t>(device::ceil_div(bytes, 256) * 256);
  };
  WorkspaceLayout layout{};
  layout.counters_of_image = project_groups(tokens) + 1;
  layout.partial = aligned(images * layout.counters_of_image * 4);
  layout.dc = layout.partial + aligned(images * project_splits(tokens) * dim * 4);
  layout.bytes = layout.dc + aligned(images * dim * 4);
  return layout;
}

}  // namespace hydrascope::kernels::hydra::cuda
