// Softmax over some of the keys: groups of patches against the keys they share
// (softmax_attention.h), prefix tokens against everything.
#pragma once

#include "model/inference/cpu/mixings/prefix_attention.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
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

template <class T>
class GroupMixing final : public Mixing<T> {
 public:
  /// Queries come divided by sqrt(d).
  GroupMixing(const MixingSite& site, GroupedKeys grouped, PrefixWeights weights)
      : num_heads_(site.num_heads),
        head_dim_(site.head_dim),
        num_prefix_(site.grid.num_prefix),
        grouped_(std::move(grouped)),
        most_queries_(grouped_.most_queries()),
        most_keys_(grouped_.most_keys()),
        prefix_(site, std::move(weights)) {}

  [[nodiscard]] MixingManner manner() const override {
    return {.rows = MixingManner::Rows::until_combined, .mixes_all_at_once = true};
  }
  MixingRoom plan(const Extent& extent) override;
  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override;

 private:
  void mix_group(std::int64_t image, std::size_t pass, const KeyGroup& group, std::int64_t head,
                 const MixingMemory<T>& memory, int thread) const;

  std::int64_t num_heads_;
  std::int64_t head_dim_;
  std::int64_t num_prefix_;
  GroupedKeys grouped_;
  std::int64_t most_queries_;
  std::int64_t most_keys_;
  PrefixAttention<T> prefix_;
  std::size_t parts_at_ = 0;      ///< earlier passes' results, in an image's memory
  std::int64_t part_stride_ = 0;  ///< floats from one pass to the next
};

extern template class GroupMixing<float>;
extern template class GroupMixing<kernels::BFloat16>;

}  // namespace hydrascope::model::inference
