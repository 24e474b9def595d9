// The same mechanism in the CPU plan.
#pragma once

#include "mean_kernel.h"
#include "model/inference/cpu/mixing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hydrascope::testing {

template <class T>
class MeanMixing final : public model::inference::Mixing<T> {
 public:
  explicit MeanMixing(const model::inference::MixingSite& site) : dim_(site.dim()) {}

  model::inference::MixingRoom plan(const model::inference::Extent&) override {
    const std::size_t sums = static_cast<std::size_t>(dim_) * sizeof(double);
    return {.tile = sums, .image = sums};
  }
  void absorb(const model::inference::MixingRows<T>& rows,
              const model::inference::MixingMemory<T>& memory, int) const override {
    auto* const sum = memory.tiles.template at<double>(rows.tile.image * memory.tiles_per_image +
                                                       rows.tile.index);
    std::fill_n(sum, dim_, 0);
    add_rows(rows.values, rows.stride, rows.tile.rows, dim_, sum);
  }
  void combine(const model::inference::Meeting& meeting,
               const model::inference::MixingMemory<T>& memory) const override {
    meeting.run(meeting.images, [&](std::int64_t image, int) {
      auto* const mean = memory.images.template at<double>(image);
      std::fill_n(mean, dim_, 0);
      for (std::int64_t tile = 0; tile < memory.tiles_per_image; ++tile) {
        const auto* sum = memory.tiles.template at<double>(image * memory.tiles_per_image + tile);
        for (std::int64_t i = 0; i < dim_; ++i)
          mean[i] += sum[i] / static_cast<double>(memory.num_tokens);
      }
    });
  }
  void mix(const model::inference::MixingRows<T>& rows,
           const model::inference::MixingMemory<T>& memory, int, T* mixed) const override {
    const auto* const mean = memory.images.template at<double>(rows.tile.image);
    for (std::int64_t i = 0; i < rows.tile.rows * dim_; ++i)
      mixed[i] = T(static_cast<float>(mean[i % dim_]));
  }

 private:
  std::int64_t dim_;
};

}  // namespace hydrascope::testing
