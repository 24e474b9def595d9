// Work on many tokens in pieces that bound the memory it takes: rows of a map, and groups of queries
// whose keys and values are copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model {

/// All tokens' rows (B, N, .) of q (B, H, N, d), joined from `rows` of tokens first .. first +
/// count. A piece has 64 MiB of the map.
at::Tensor rows_in_pieces(
    const at::Tensor& q,
    const std::function<at::Tensor(std::int64_t first, std::int64_t count)>& rows);

/// The attention of groups first .. first + count: q (B, count, h, n, d), k and v
/// (B, count, h, m, .) -> (B, count, h, n, .).
using AttendGroups =
    std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             std::int64_t first, std::int64_t count)>;

/// Attention of G groups: q, k, v (B, T, h, .), of which group g has the rows queries[g] of q and
/// keys[g] of k and v, (G, n) and (G, m) int64 -> (B, G n, h, .). A piece copies 64 MiB; `num_maps`:
/// tensors of n x m that a group makes.
at::Tensor attend_in_pieces(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& queries, const at::Tensor& keys,
                            std::int64_t num_maps, const AttendGroups& attend);

/// The groups' outputs `parts`, (B, n, ...) each, in token order: (B, num_tokens, ...). `tokens`:
/// the tokens (n, int64) of each part; a token may occur twice.
at::Tensor in_token_order(const std::vector<at::Tensor>& parts,
                          const std::vector<at::Tensor>& tokens, std::int64_t num_tokens);

}  // namespace hydrascope::model
