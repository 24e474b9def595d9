// Linear attention of any feature map that the kernels know (kernels/linear_attention).
#pragma once

#include "kernels/linear_attention/layout.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/inference/cpu/mixing.h"
#include "model/inference/cpu/mixings/frame_mean.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

template <class T>
class LinearMixing final : public Mixing<T> {
 public:
  /// `weights`: the keys' weights in the sums of a map without a denominator. `lambda` > 0: the sums
  /// are means over the frames of a video (frame_mean.h).
  LinearMixing(const kernels::linear_attention::Shape& shape, const kernels::TokenWeights& weights,
               double lambda = 0)
      : shape_(shape), weights_(weights), lambda_(static_cast<float>(lambda)) {}

  MixingRoom plan(const Extent& extent) override {
    namespace kernel = kernels::linear_attention;
    return {.tile = kernel::sums_size(shape_) * sizeof(float),
            .image = padded(kernel::state_bytes<T>(shape_)),
            .thread = kernel::scratch_bytes<T>(shape_, extent.most_rows()),
            .video = lambda_ > 0 ? FrameWeight::kBytes + 2 * sums_bytes() : 0};
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
    if (lambda_ > 0) return combine_frames(meeting, memory);
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
  [[nodiscard]] std::size_t sums_bytes() const {
    return padded(kernels::linear_attention::sums_size(shape_) * sizeof(float));
  }

  /// The tiles' sums become the frame's, and with the mean before them the mean that queries read.
  void combine_frames(const Meeting& meeting, const MixingMemory<T>& memory) const {
    namespace kernel = kernels::linear_attention;
    const FrameShares shares = FrameWeight(memory.video).next(lambda_, meeting.goes_on);
    auto* const mean = reinterpret_cast<float*>(memory.video + FrameWeight::kBytes);
    auto* const frame = reinterpret_cast<float*>(memory.video + FrameWeight::kBytes + sums_bytes());
    void* const state = memory.images.template at<void>(0);
    meeting.run(shape_.num_heads, [&](std::int64_t head, int) {
      kernel::combine(kernel::CombineParams<T>{
          shape_, memory.tiles.template at<float>(0), memory.tiles_per_image, head, 1, state,
          kernel::sums_of_head(shape_, meeting.goes_on ? frame : mean, 0)});
      if (!meeting.goes_on) return;
      average(kernel::sums_of_head(shape_, frame, head), shares,
              kernel::sums_of_head(shape_, mean, head));
      kernel::combine(kernel::CombineParams<T>{shape_, mean, 1, head, 1, state});
    });
  }
  /// mean = shares.now * frame + shares.before * mean, both brought to the larger maximum.
  void average(const kernels::linear_attention::Sums<float>& frame, const FrameShares& shares,
               const kernels::linear_attention::Sums<float>& mean) const {
    for (std::int64_t f = 0; f < shape_.features(); ++f) {
      const float most = std::max(frame.maximum[f], mean.maximum[f]);
      const float now = shares.now * std::exp(frame.maximum[f] - most);
      const float before = shares.before * std::exp(mean.maximum[f] - most);
      float* const to = mean.s + f * shape_.head_dim;
      const float* const from = frame.s + f * shape_.head_dim;
      for (std::int64_t i = 0; i < shape_.head_dim; ++i) to[i] = now * from[i] + before * to[i];
      mean.z[f] = now * frame.z[f] + before * mean.z[f];
      mean.maximum[f] = most;
    }
  }

  kernels::linear_attention::Shape shape_;
  kernels::TokenWeights weights_;
  float lambda_;
};

}  // namespace hydrascope::model::inference
