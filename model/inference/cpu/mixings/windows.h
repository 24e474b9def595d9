// Softmax within the windows of the network's token order; prefix tokens see everything.
#pragma once

#include "model/inference/cpu/mixings/prefix_attention.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

template <class T>
class WindowMixing final : public Mixing<T> {
 public:
  /// Queries come divided by sqrt(d).
  WindowMixing(const MixingSite& site, PrefixWeights weights)
      : num_prefix_(site.grid.num_prefix),
        heads_(site.softmax_shape(0)),
        windows_(site.order.windows),
        prefix_(site, std::move(weights)) {}

  [[nodiscard]] MixingManner manner() const override {
    return {.rows = MixingManner::Rows::until_mixed,
            .prefix_last = true,
            .sees_windows_alone = true,
            .heads_apart = true};
  }
  MixingRoom plan(const Extent& extent) override {
    namespace kernel = kernels::softmax_attention;
    std::int64_t most_keys = num_prefix_;
    for (std::size_t i = 1; i < windows_.size(); ++i)
      most_keys = std::max(most_keys, num_prefix_ + windows_[i] - windows_[i - 1]);
    const kernel::Shape most = shape(most_keys);
    values_at_ = padded(kernel::keys_size<T>(most) * sizeof(T));
    scratch_at_ = values_at_ + padded(kernel::values_size<T>(most) * sizeof(T));
    return {.image = prefix_.plan(extent), .thread = scratch_at_ + kernel::scratch_bytes<T>(most)};
  }

  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread,
           T* mixed) const override {
    const MixingRows<T> prefix = memory.rows_of(rows.tile.image);
    mix_patches(rows, prefix, memory, thread, mixed);
    if (rows.first_head > 0) return;  // below, all heads
    // Prefix tokens see the tile while its keys are in the cache.
    auto* const sums = memory.images.template at<float>(rows.tile.image);
    for (std::size_t i = 0; i < prefix_.parts().size(); ++i) {
      const auto& part = prefix_.parts()[i];
      if (part.tile != rows.tile.index) continue;
      const std::int64_t at = (part.first - rows.tile.first) * rows.stride;
      prefix_.ask(i, prefix, rows.keys + at, rows.values + at, sums);
    }
    // The prefix is the last tile to be mixed.
    prefix_.merge(rows.tile.rows_before(num_prefix_), sums, mixed);
  }

 private:
  [[nodiscard]] kernels::softmax_attention::Shape shape(std::int64_t keys) const {
    return heads_.of_tokens(keys);
  }
  /// Mixes window by window; tiles that share a window each mix their own part of it.
  void mix_patches(const MixingRows<T>& rows, const MixingRows<T>& prefix,
                   const MixingMemory<T>& memory, int thread, T* mixed) const {
    namespace kernel = kernels::softmax_attention;
    auto* const keys = memory.threads.template at<T>(thread);
    auto* const values = memory.threads.behind(values_at_).template at<T>(thread);
    void* const scratch = memory.threads.behind(scratch_at_).template at<std::byte>(thread);
    const Tile& tile = rows.tile;
    const std::int64_t end = tile.first + tile.rows;
    const std::int64_t column = rows.first_head * heads_.head_dim;
    std::int64_t token = std::max(tile.first, num_prefix_);
    auto window = std::ranges::upper_bound(windows_, token - num_prefix_) - 1;
    for (; token < end; ++window) {
      const std::int64_t first = num_prefix_ + window[0];
      const std::int64_t size = window[1] - window[0];
      const kernel::Shape of_window = shape(num_prefix_ + size).of_heads(rows.num_heads);
      const auto pack = [&](const T* k, const T* v, std::int64_t count, std::int64_t to) {
        kernel::pack(kernel::PackParams<T>{of_window, k + column, v + column, rows.stride, to,
                                           count, keys, values});
      };
      pack(prefix.keys, prefix.values, num_prefix_, 0);
      const std::int64_t at = (first - tile.first) * rows.stride;
      pack(rows.keys + at, rows.values + at, size, num_prefix_);
      const std::int64_t row = token - tile.first;
      const std::int64_t count = std::min(end, first + size) - token;
      kernel::attend(kernel::AttendParams<T>{
          of_window, rows.queries + row * rows.query_stride + column, rows.query_stride, count,
          keys, values, mixed + row * memory.dim + column, memory.dim, scratch});
      token += count;
    }
  }

  std::int64_t num_prefix_;
  kernels::softmax_attention::Shape heads_;
  std::vector<std::int64_t> windows_;
  PrefixAttention<T> prefix_;
  std::size_t values_at_ = 0;
  std::size_t scratch_at_ = 0;
};

}  // namespace hydrascope::model::inference
