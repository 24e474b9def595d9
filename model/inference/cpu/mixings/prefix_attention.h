// Softmax of the prefix tokens over everything, beside patches that see less. The keys come in
// parts: each part is attended to while it is in a core's cache, and the sums of all parts are
// merged (kernels/softmax_attention/few_queries.h).
#pragma once

#include "kernels/softmax_attention/few_queries.h"
#include "model/inference/cpu/mixing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

/// The scores s of prefix tokens become factor * s in each head, and factor * s + overview for keys of
/// the overview. Empty: they stay as they are.
struct PrefixWeights {
  std::vector<float> factor;
  std::vector<float> overview;
};

template <class T>
class PrefixAttention {
 public:
  /// Neighbouring keys of one tile, of the picture or of its overview.
  struct Part {
    std::int64_t tile;
    std::int64_t first;
    std::int64_t count;
    bool of_overview;
  };

  PrefixAttention(const MixingSite& site, PrefixWeights weights)
      : grid_(site.grid),
        num_heads_(site.num_heads),
        head_dim_(site.head_dim),
        weights_(std::move(weights)) {}

  /// Returns the bytes of one image's sums.
  std::size_t plan(const Extent& extent) {
    parts_.clear();
    const std::int64_t overview = grid_.num_prefix + grid_.num_patches();
    for (std::int64_t index = 0; grid_.num_prefix > 0 && index < extent.num_tiles(); ++index) {
      const Tile tile = tile_of(index, extent);
      const std::int64_t end = tile.first + tile.rows;
      for (std::int64_t first = tile.first, count = 0; first < end; first += count) {
        count = std::min(kernels::softmax_attention::kPartKeys,
                         (first < overview ? std::min(overview, end) : end) - first);
        parts_.push_back({index, first, count, first >= overview});
      }
    }
    return parts_.size() * part_size() * sizeof(float);
  }
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }

  /// `prefix`: the prefix tokens' queries. `keys`, `values`: the part's first token's, rows
  /// `prefix.stride` apart. `sums`: the image's.
  void ask(std::size_t part, const MixingRows<T>& prefix, const T* keys, const T* values,
           float* sums) const {
    const Part& asked = parts_[part];
    const bool biased = asked.of_overview && !weights_.overview.empty();
    kernels::softmax_attention::attend_part(kernels::softmax_attention::PartParams<T>{
        {asked.count, num_heads_, head_dim_},
        prefix.queries,
        prefix.query_stride,
        grid_.num_prefix,
        keys,
        values,
        prefix.stride,
        weights_.factor.empty() ? nullptr : weights_.factor.data(),
        biased ? weights_.overview.data() : nullptr,
        sums + part * part_size()});
  }
  /// After `ask` of all parts: the outputs (rows, D) of the first `rows` prefix tokens.
  void merge(std::int64_t rows, const float* sums, T* mixed) const {
    if (rows == 0) return;
    kernels::softmax_attention::merge_parts(kernels::softmax_attention::MergeParams<T>{
        num_heads_, head_dim_, rows, sums, static_cast<std::int64_t>(part_size()),
        std::ssize(parts_), mixed, num_heads_ * head_dim_});
  }

 private:
  [[nodiscard]] std::size_t part_size() const {
    return kernels::softmax_attention::part_size(grid_.num_prefix, num_heads_, head_dim_);
  }

  TokenGrid grid_;
  std::int64_t num_heads_;
  std::int64_t head_dim_;
  PrefixWeights weights_;
  std::vector<Part> parts_;
};

}  // namespace hydrascope::model::inference
