// Softmax over some of the keys, as groups of queries that share a list of keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// Queries that see the same keys, or some of a common list, in neighbouring heads. Indices are
/// into `tokens` and `sees` of GroupedKeys.
struct KeyGroup {
  std::int64_t first_head;
  std::int64_t num_heads;
  std::size_t queries;  ///< the first of `num_queries` tokens
  std::int64_t num_queries;
  std::size_t keys;  ///< the first of `num_keys` tokens
  std::int64_t num_keys;
  /// The first word of the queries' rows of bits (softmax_attention.h); kAllSeen without them.
  std::size_t sees;
  /// Whether this is its heads' last pass. The softmax of a head is over all its passes together.
  bool is_last;

  static constexpr std::size_t kAllSeen = static_cast<std::size_t>(-1);
};

/// The keys that a layer's patches see at one size of the picture. Prefix tokens are among the
/// keys, not among the queries: they see everything.
struct GroupedKeys {
  std::vector<std::int32_t> tokens;  ///< tokens' places in the plan's order
  std::vector<std::uint32_t> sees;   ///< as the plan's storage has them
  /// Every patch is a query of one group in each pass of a head.
  std::vector<std::vector<KeyGroup>> passes;

  [[nodiscard]] std::int64_t most_queries() const {
    return most([](const KeyGroup& group) { return group.num_queries; });
  }
  [[nodiscard]] std::int64_t most_keys() const {
    return most([](const KeyGroup& group) { return group.num_keys; });
  }

 private:
  template <class Number>
  [[nodiscard]] std::int64_t most(Number number) const {
    std::int64_t largest = 0;
    for (const std::vector<KeyGroup>& groups : passes)
      for (const KeyGroup& group : groups) largest = std::max(largest, number(group));
    return largest;
  }
};

}  // namespace hydrascope::model::inference
