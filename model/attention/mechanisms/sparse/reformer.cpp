// Reformer's attention (Kitaev et al. 2020, Reformer: The Efficient Transformer, arXiv 2001.04451,
// section 2) on the patches of a picture: a patch sees the patches whose keys fall into the bucket
// of its query, itself and the prefix tokens, which see all. share_qk=on is the paper's: keys are unit
// queries, and a token sees itself only if it sees nothing else. Off by default, because softmax
// checkpoints have keys of their own.
// Round t hashes queries and keys by direction,
//   h_t(x) = argmax [x R_t, -x R_t],    R_t (d, b/2) standard normal,    b = 2 max(1, ceil(n / 2c))
// for n patches and chunks of c. Queries sorted by (h, index) are cut into chunks. A query sees the
// keys of its own bucket among the 3 c sorted keys around its chunk's place. The place among the
// keys is as far behind the beginning of the first query's bucket as among the queries, but no
// further than the bucket's end; later queries of the chunk may miss keys of their buckets. With
// shared q and k the place is the chunk itself, as in the paper, which looks one chunk back in a
// causal order. A pair of several rounds counts once: the softmax is over the union.
#include "model/attention/sparse/content_softmax.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/attention/sparse/split_mix.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// One hash of the patches of G images and heads, and the groups that it makes.
struct HashRound {
  Tensor of_queries, of_keys;  ///< buckets (G, n)
  Tensor rank_of_keys;         ///< (G, n) int32: a key's place in the order of buckets
  Tensor first_rank;           ///< (G, n) int32: rank of the first key that a query's chunk reads
  std::int64_t reach;          ///< number of keys that a chunk reads
  FoundGroups groups;          ///< without `sees`

  /// Which keys (c, m) of a group its queries (c, n) hold: (c, n, m).
  [[nodiscard]] Tensor holds(const Tensor& queries, const Tensor& keys) const {
    const Tensor distance =
        rank_of_keys.take(keys).unsqueeze(1) - first_rank.take(queries).unsqueeze(2);
    return of_queries.take(queries)
        .unsqueeze(2)
        .eq(of_keys.take(keys).unsqueeze(1))
        .logical_and_(distance.ge(0))
        .logical_and_(distance.lt(reach));
  }
};

/// x (G, n, d), directions (d, b/2) -> (G, n).
Tensor hashed(const Tensor& x, const Tensor& directions) {
  std::vector<Tensor> all;
  for (const Tensor& one : x.unbind()) {
    const auto [most, at_most] = one.matmul(directions).max(-1);
    const auto [least, at_least] = one.matmul(directions).min(-1);
    all.push_back(at::where(most.ge(-least), at_most, at_least + directions.size(1)));
  }
  return at::stack(all);
}

HashRound hash_round(const Tensor& q, const Tensor& k, const Tensor& directions,
                     std::int64_t chunk) {
  HashRound round;
  const std::int64_t n = q.size(1);
  const auto options = q.options().dtype(at::kLong);
  round.of_queries = hashed(q, directions);
  round.of_keys = hashed(k, directions);
  round.reach = std::min(3 * chunk, n);
  const Tensor query_order = at::argsort(round.of_queries, /*stable=*/true, /*dim=*/1);
  const Tensor key_order = at::argsort(round.of_keys, /*stable=*/true, /*dim=*/1);
  const Tensor sorted_queries = round.of_queries.gather(1, query_order);
  const Tensor sorted_keys = round.of_keys.gather(1, key_order);
  // The chunks' begins among the queries, and the keys that chunks read.
  const Tensor begin = at::arange(0, n, chunk, options);
  const Tensor bucket = sorted_queries.index_select(1, begin).contiguous();
  const Tensor first_key = at::searchsorted(sorted_keys, bucket);
  const Tensor num_keys = at::searchsorted(sorted_keys, bucket, false, /*right=*/true) - first_key;
  const Tensor behind = begin - at::searchsorted(sorted_queries, bucket);
  const Tensor first =
      (first_key + at::minimum(behind, num_keys) - chunk).clamp(0, n - round.reach);
  const Tensor of_all = at::arange(n, options);
  round.rank_of_keys =
      at::empty_like(key_order).scatter_(1, key_order, of_all.expand_as(key_order)).to(at::kInt);
  round.first_rank =
      at::empty_like(query_order)
          .scatter_(1, query_order, first.index_select(1, of_all.div(chunk, "floor")))
          .to(at::kInt);
  // The last chunk repeats its last query.
  const Tensor places =
      (begin.unsqueeze(1) + at::arange(std::min(chunk, n), options)).clamp_max(n - 1);
  const Tensor read = first.unsqueeze(2) + at::arange(round.reach, options);
  const Tensor offset = at::arange(q.size(0), options).view({-1, 1}) * n;
  const auto grouped = [](const Tensor& patches, std::int64_t size) {
    return patches.reshape({-1, size});
  };
  round.groups.queries =
      grouped(query_order.index_select(1, places.flatten()) + offset, places.size(1));
  round.groups.keys = grouped(key_order.gather(1, read.flatten(1)) + offset, round.reach);
  return round;
}

/// Chunks of `chunk` patches, 0: all patches find all. R_t is drawn from the seed, the round and the
/// column alone, so a picture of any size has its buckets.
class HashPattern final : public ContentPattern {
 public:
  HashPattern(std::int64_t chunk, std::int64_t rounds, std::uint64_t seed)
      : chunk_(chunk), rounds_(rounds), seed_(seed) {}

  [[nodiscard]] std::vector<FoundGroups> passes(const Tensor& q, const Tensor& k) const override {
    const std::int64_t n = q.size(1);
    const std::int64_t chunk = chunk_ == 0 ? n : chunk_;
    const std::int64_t pairs =
        chunk_ == 0 ? 0 : std::max<std::int64_t>(1, (n + 2 * chunk - 1) / (2 * chunk));
    std::vector<HashRound> rounds;
    std::vector<FoundGroups> result;
    for (std::int64_t t = 0; t < (chunk_ == 0 ? 1 : rounds_); ++t) {
      HashRound round = hash_round(q, k, directions(q, pairs, t), chunk);
      FoundGroups& groups = round.groups;
      groups.sees = groups.queries.unsqueeze(2).ne(groups.keys.unsqueeze(1));
      groups.sees.logical_and_(round.holds(groups.queries, groups.keys));
      for (const HashRound& earlier : rounds)
        groups.sees.logical_and_(earlier.holds(groups.queries, groups.keys).logical_not_());
      result.push_back(groups);
      rounds.push_back(std::move(round));
    }
    return result;
  }
  [[nodiscard]] bool finds_all(std::int64_t) const override { return chunk_ == 0; }

 private:
  /// R of a round (d, pairs): its columns do not depend on how many there are. One bucket is a single
  /// direction of zeros.
  [[nodiscard]] Tensor directions(const Tensor& q, std::int64_t pairs, std::int64_t round) const {
    if (pairs == 0) return at::zeros({q.size(2), 1}, q.options());
    const std::uint64_t seed = seed_below(seed_, round);
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < pairs * q.size(2); ++i)
      numbers.push_back(normal_number(seed_below(seed, i)));
    return at::tensor(numbers, at::kDouble).view({pairs, -1}).t().to(q.device());
  }

  std::int64_t chunk_;
  std::int64_t rounds_;
  std::uint64_t seed_;
};

const IntegerOption kBucket("bucket", 64, 0, 65536, "patches of a chunk; 0: all patches see all");
const IntegerOption kRounds("rounds", 2, 1, 16, "hashes, of which one must bring a pair together");
const SwitchOption kReformerShareQk("share_qk", false, "keys are unit queries, k is not used");
const IntegerOption kReformerSeed("seed", 0, 0, 1000000000, "of the hashes' directions");

MixerCost reformer_cost(const MixerSize& size, const MechanismOptions& options) {
  const auto n = static_cast<double>(size.num_tokens());
  const auto prefix = static_cast<double>(size.grid.num_prefix);
  const auto bucket = static_cast<double>(kBucket(options));
  const auto rounds = static_cast<double>(kRounds(options));
  const auto features = static_cast<double>(size.embed_dim);
  const double patches = n - prefix;
  const double keys = bucket == 0 ? patches : std::min(patches, 3 * bucket * rounds);
  const double directions = bucket == 0 ? 0 : std::max(1.0, patches / (2 * bucket));
  const double pairs = prefix * n + patches * prefix + patches * keys;
  return {4 * features * pairs + 4 * features * patches * directions * rounds,
          4 * n * features * static_cast<double>(size.bytes_per_element), pairs};
}

const MechanismRegistration kReformer(over_some_tokens({
    .name = "reformer",
    .aliases = {"lsh"},
    .summary = "softmax attention over patches of the query's hash buckets, O(N D c) and hashing",
    .citation = "Kitaev et al. 2020, Reformer: The Efficient Transformer, arXiv 2001.04451",
    .options = {kBucket, kRounds, kReformerShareQk, kReformerSeed},
    .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the keys of the query's bucket, of "
                      "any round, that its chunk reads, itself and the prefix tokens, 0 elsewhere; "
                      "rows of prefix tokens over all. Without share_qk a chunk reads around its "
                      "first query's bucket, and its later queries may miss keys of theirs",
    .cost = reformer_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions& options = arguments.options;
      const std::uint64_t seed =
          seed_below(static_cast<std::uint64_t>(kReformerSeed(options)), arguments.layer_index);
      return std::make_unique<ContentSoftmaxMixer>(
          std::make_unique<HashPattern>(kBucket(options), kRounds(options), seed),
          arguments.position, kReformerShareQk(options));
    },
}));

}  // namespace
}  // namespace hydrascope::model
