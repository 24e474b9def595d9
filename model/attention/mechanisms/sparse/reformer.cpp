// Reformer's attention (Kitaev et al. 2020, Reformer: The Efficient Transformer, arXiv 2001.04451,
// section 2) on the patches of a picture: a patch sees the patches whose keys fall into the bucket
// of its query (hash_pattern.h), itself and the prefix tokens, which see all. share_qk=on is the
// paper's: keys are unit queries, and a token sees itself only if it sees nothing else. Off by
// default, because softmax checkpoints have keys of their own.
#include "model/attention/sparse/content_softmax.h"
#include "model/attention/sparse/hash_pattern.h"
#include "model/attention/sparse/split_mix.h"
#include "model/registry/mechanisms.h"

#include <algorithm>
#include <memory>

namespace hydrascope::model {
namespace {

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

const MechanismRegistration kReformer({
    .name = "reformer",
    .aliases = {"lsh"},
    .summary = "softmax attention over patches of the query's hash buckets, O(N D c) and hashing",
    .citation = "Kitaev et al. 2020, Reformer: The Efficient Transformer, arXiv 2001.04451",
    .options = {kBucket, kRounds, kReformerShareQk, kReformerSeed},
    .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the keys of the query's bucket, of "
                      "any round, that its chunk reads, itself and the prefix tokens, 0 elsewhere; "
                      "rows of prefix tokens over all. Without share_qk a chunk reads around its "
                      "first query's bucket, and its later queries may miss keys of theirs",
    .rows_sum_to_one = true,
    .non_negative = true,
    .permutation_equivariant = false,
    .sparse = true,
    .takes_positions = true,
    .cost = reformer_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions& options = arguments.options;
      const std::uint64_t seed =
          seed_below(static_cast<std::uint64_t>(kReformerSeed(options)), arguments.layer_index);
      return std::make_unique<ContentSoftmaxMixer>(
          hash_pattern(kBucket(options), kRounds(options), seed), arguments.position,
          kReformerShareQk(options));
    },
});

}  // namespace
}  // namespace hydrascope::model
