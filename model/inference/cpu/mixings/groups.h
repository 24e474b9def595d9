// Softmax over some of the keys: groups of patches against the keys they share
// (softmax_attention.h), prefix tokens against everything.
#pragma once

#include "model/inference/cpu/grouped_keys.h"
#include "model/inference/cpu/mixings/prefix_attention.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hydrascope::model::inference {

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
