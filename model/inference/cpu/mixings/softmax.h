// Softmax over all tokens (kernels/softmax_attention).
#pragma once

#include "model/inference/cpu/mixing.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

template <class T>
class SoftmaxMixing final : public Mixing<T> {
 public:
  /// Queries come divided by sqrt(d) and are multiplied by `query_scale`.
  SoftmaxMixing(const MixingSite& site, float query_scale)
      : shape_(site.softmax_shape(site.grid.num_tokens())), query_scale_(query_scale) {}

  [[nodiscard]] MixingManner manner() const override {
    return {.even_tiles = true, .heads_apart = true};
  }
  MixingRoom plan(const Extent&) override {
    keys_bytes_ = padded(kernels::softmax_attention::keys_size<T>(shape_) * sizeof(T));
    return {.keys = keys_bytes_ +
                    padded(kernels::softmax_attention::values_size<T>(shape_) * sizeof(T)),
            .thread = kernels::softmax_attention::scratch_bytes<T>(shape_)};
  }

  void absorb(const MixingRows<T>& rows, const MixingMemory<T>& memory, int) const override {
    const kernels::softmax_attention::Shape heads = heads_of(rows);
    const std::int64_t column = rows.first_head * shape_.head_dim;
    if (query_scale_ != 1) {
      T* q = rows.queries + column;
      for (std::int64_t row = 0; row < rows.queried; ++row, q += rows.query_stride)
        for (std::int64_t i = 0; i < heads.num_heads * heads.head_dim; ++i)
          q[i] = T(query_scale_ * static_cast<float>(q[i]));
    }
    kernels::softmax_attention::pack(kernels::softmax_attention::PackParams<T>{
        heads, rows.keys + column, rows.values + column, rows.stride, rows.tile.first,
        rows.tile.rows, keys(rows, memory), values(rows, memory)});
  }

  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread,
           T* mixed) const override {
    const std::int64_t column = rows.first_head * shape_.head_dim;
    kernels::softmax_attention::attend(kernels::softmax_attention::AttendParams<T>{
        heads_of(rows), rows.queries + column, rows.query_stride, rows.tile.rows,
        keys(rows, memory), values(rows, memory), mixed + column, memory.dim,
        memory.threads.template at<void>(thread)});
  }

 private:
  [[nodiscard]] kernels::softmax_attention::Shape heads_of(const MixingRows<T>& rows) const {
    return shape_.of_heads(rows.num_heads);
  }
  [[nodiscard]] kernels::softmax_attention::Shape heads_before(const MixingRows<T>& rows) const {
    return shape_.of_heads(rows.first_head);
  }
  [[nodiscard]] T* keys(const MixingRows<T>& rows, const MixingMemory<T>& memory) const {
    return memory.keys.template at<T>(rows.tile.image) +
           kernels::softmax_attention::keys_size<T>(heads_before(rows));
  }
  [[nodiscard]] T* values(const MixingRows<T>& rows, const MixingMemory<T>& memory) const {
    return memory.keys.behind(keys_bytes_).template at<T>(rows.tile.image) +
           kernels::softmax_attention::values_size<T>(heads_before(rows));
  }

  kernels::softmax_attention::Shape shape_;
  float query_scale_;
  std::size_t keys_bytes_ = 0;
};

}  // namespace hydrascope::model::inference
