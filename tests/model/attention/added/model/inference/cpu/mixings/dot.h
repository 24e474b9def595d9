// Linear attention without a feature map and without a denominator.
#pragma once

#include "kernels/dot/dot.h"
#include "model/inference/cpu/mixing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

template <class T>
class DotMixing final : public Mixing<T> {
  using Memory = MixingMemory<T>;
  using Rows = MixingRows<T>;

 public:
  explicit DotMixing(const MixingSite& site) : heads_(site.num_heads), dim_(site.head_dim) {}

  MixingRoom plan(const Extent&) override {
    const std::size_t sums = static_cast<std::size_t>(size()) * sizeof(double);
    return {.tile = sums, .image = sums};
  }
  void absorb(const Rows& rows, const Memory& memory, int) const override {
    auto* const sums = memory.tiles.template at<double>(rows.tile.image * memory.tiles_per_image +
                                                        rows.tile.index);
    std::fill_n(sums, size(), 0);
    for (std::int64_t head = 0; head < heads_; ++head)
      kernels::dot::add_outer_products(rows.keys + head * dim_, rows.values + head * dim_,
                                       rows.stride, rows.tile.rows, dim_,
                                       sums + head * dim_ * dim_);
  }
  void combine(const Meeting& meeting, const Memory& memory) const override {
    meeting.run(meeting.images, [&](std::int64_t image, int) {
      auto* const mean = memory.images.template at<double>(image);
      std::fill_n(mean, size(), 0);
      for (std::int64_t tile = 0; tile < memory.tiles_per_image; ++tile) {
        const auto* sums = memory.tiles.template at<double>(image * memory.tiles_per_image + tile);
        for (std::int64_t i = 0; i < size(); ++i)
          mean[i] += sums[i] / static_cast<double>(memory.num_tokens);
      }
    });
  }
  void mix(const Rows& rows, const Memory& memory, int, T* mixed) const override {
    const auto* const mean = memory.images.template at<double>(rows.tile.image);
    for (std::int64_t row = 0; row < rows.tile.rows; ++row)
      for (std::int64_t head = 0; head < heads_; ++head)
        kernels::dot::row_times(rows.queries + row * rows.query_stride + head * dim_,
                                mean + head * dim_ * dim_, dim_,
                                mixed + row * memory.dim + head * dim_);
  }

 private:
  [[nodiscard]] std::int64_t size() const { return heads_ * dim_ * dim_; }

  std::int64_t heads_;
  std::int64_t dim_;
};

}  // namespace hydrascope::model::inference
