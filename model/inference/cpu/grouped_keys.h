// Softmax over some of the keys as work: groups of queries that share a list of keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// Queries that see the same keys, or some of the same, in neighbouring heads. Their tokens are
/// those of GroupedKeys.
struct KeyGroup {
  std::int64_t first_head;
  std::int64_t num_heads;
  std::size_t queries;  ///< the first of `num_queries` tokens
  std::int64_t num_queries;
  std::size_t keys;  ///< the first of `num_keys` tokens
  std::int64_t num_keys;
  /// The first word of the queries' rows of bits (softmax_attention.h); kAllSeen without them.
  std::size_t sees;
  /// Whether it is the last pass of its heads: of which all passes together are the softmax.
  bool is_last;

  static constexpr std::size_t kAllSeen = static_cast<std::size_t>(-1);
};

/// What a layer's patches see at one size of the picture. Prefix tokens are keys of it, but no
/// queries: those see everything.
struct GroupedKeys {
  std::vector<std::int32_t> tokens;  ///< as they follow each other in the plan
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
