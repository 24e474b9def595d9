// Linear attention of any feature map that the kernels know (kernels/linear_attention).
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/inference/cpu/mixing.h"

#include <cstdint>

namespace hydrascope::model::inference {

template <class T>
class LinearMixing final : public Mixing<T> {
 public:
  /// `weights`: the keys' weights in the sums of a map without a denominator.
  LinearMixing(const kernels::linear_attention::Shape& shape, const kernels::TokenWeights& weights)
      : shape_(shape), weights_(weights) {}

  MixingRoom plan(const Extent& extent) override {
    namespace kernel = kernels::linear_attention;
    return {.tile = kernel::sums_size(shape_) * sizeof(float),
            .image = padded(kernel::state_bytes<T>(shape_)),
            .thread = kernel::scratch_bytes<T>(shape_, extent.most_rows())};
  }

  void absorb(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread) const override {
    const std::int64_t index = rows.tile.image * memory.tiles_per_image + rows.tile.index;
    kernels::linear_attention::AccumulateParams<T> p{};
    p.shape = shape_;
    p.k = rows.keys;
    p.k_stride = rows.stride;
    p.v = rows.values;
    p.v_stride = rows.stride;
    p.rows = rows.tile.rows;
    p.weights = weights_.from(rows.tile.first);
    p.sums = memory.tiles.template at<float>(index);
    p.scratch = memory.threads.template at<void>(thread);
    kernels::linear_attention::clear(shape_, p.sums);
    kernels::linear_attention::accumulate(p);
  }

  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    meeting.run(meeting.images * shape_.num_heads, [&](std::int64_t item, int) {
      const std::int64_t image = item / shape_.num_heads;
      kernels::linear_attention::combine(kernels::linear_attention::CombineParams<T>{
          shape_, memory.tiles.template at<float>(image * memory.tiles_per_image),
          memory.tiles_per_image, item % shape_.num_heads, 1,
          memory.images.template at<void>(image)});
    });
  }

  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread,
           T* mixed) const override {
    kernels::linear_attention::read_out(kernels::linear_attention::ReadOutParams<T>{
        shape_, rows.queries, rows.query_stride, rows.tile.rows,
        memory.images.template at<void>(rows.tile.image), mixed, memory.dim,
        memory.threads.template at<void>(thread)});
  }

 private:
  kernels::linear_attention::Shape shape_;
  kernels::TokenWeights weights_;
};

}  // namespace hydrascope::model::inference
