// Patches that find each other by locality-sensitive hashing (Kitaev et al. 2020, Reformer: The
// Efficient Transformer, arXiv 2001.04451, section 2). Round t hashes queries and keys by direction,
//   h_t(x) = argmax [x R_t, -x R_t],    R_t (d, b/2) standard normal,    b = 2 max(1, ceil(n / 2c))
// for n patches and chunks of c. Queries sorted by (h, index) are cut into chunks. A query sees the
// keys of its own bucket among the 3 c sorted keys around its chunk's place. The place among the
// keys is as far behind the beginning of the first query's bucket as among the queries, but no
// further than the bucket's end; later queries of the chunk may miss keys of their buckets. With
// shared q and k the place is the chunk itself, as in the paper, which looks one chunk back in a
// causal order. A pair of several rounds counts once: the softmax is over the union.
#pragma once

#include "model/attention/sparse/content_softmax.h"

#include <cstdint>
#include <memory>

namespace hydrascope::model {

/// Chunks of `chunk` patches, 0: all patches find all. R_t is drawn from the seed, the round and the
/// column alone, so a picture of any size has its buckets.
std::unique_ptr<ContentPattern> hash_pattern(std::int64_t chunk, std::int64_t rounds,
                                             std::uint64_t seed);

}  // namespace hydrascope::model
