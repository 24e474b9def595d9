// Softmax over some of the keys, by kernels: groups of patches against the keys they share
// (softmax_attention.h), prefix tokens against everything in parts (few_queries.h).
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/cpu/workspace.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// Memory of one thread for groups of at most so many queries and keys, for one head; `passes` of
/// the pattern.
template <class T>
std::size_t group_scratch_bytes(std::int64_t most_queries, std::int64_t most_keys,
                                std::size_t passes, std::int64_t head_dim);

/// Mixes the tokens of `images` images, whose queries, keys and values are stored, into `work.mixed`:
/// prefix tokens and, with `with_patches`, the others. Times of all threads go to their scratch where
/// `timed`.
template <class T>
void mix_groups(const PackedNetwork& network, const ImageGeometry& geometry, std::size_t layer,
                bool with_patches, std::int64_t images, bool timed, Workspace<T>& work,
                kernels::device::ThreadTeam& team);

/// What the keys of `part`, an index into `work.parts`, give to an image's prefix tokens. `keys`: the
/// first of them, values behind each.
template <class T>
void ask_for_prefix(const PackedNetwork& network, const ImageGeometry& geometry, std::size_t layer,
                    std::int64_t image, std::size_t part, const T* keys, Workspace<T>& work);
/// Behind all parts: the first `rows` prefix tokens (rows, D).
template <class T>
void merge_prefix(const PackedNetwork& network, std::int64_t image, std::int64_t rows,
                  Workspace<T>& work, T* mixed);

}  // namespace hydrascope::model::inference
