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

  [[nodiscard]] MixingManner manner() const override { return {.even_tiles = true}; }
  MixingRoom plan(const Extent&) override {
    keys_bytes_ = padded(kernels::softmax_attention::keys_size<T>(shape_) * sizeof(T));
    return {.keys = keys_bytes_ +
                    padded(kernels::softmax_attention::values_size<T>(shape_) * sizeof(T)),
            .thread = kernels::softmax_attention::scratch_bytes<T>(shape_)};
  }

  void absorb(const MixingRows<T>& rows, const MixingMemory<T>& memory, int) const override {
    if (query_scale_ != 1) {
      T* q = rows.queries;
      for (std::int64_t row = 0; row < rows.queried; ++row, q += rows.query_stride)
        for (std::int64_t i = 0; i < memory.dim; ++i)
          q[i] = T(query_scale_ * static_cast<float>(q[i]));
    }
    kernels::softmax_attention::pack(kernels::softmax_attention::PackParams<T>{
        shape_, rows.keys, rows.values, rows.stride, rows.tile.first, rows.tile.rows,
        keys(rows.tile.image, memory), values(rows.tile.image, memory)});
  }

  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread,
           T* mixed) const override {
    kernels::softmax_attention::attend(kernels::softmax_attention::AttendParams<T>{
        shape_, rows.queries, rows.query_stride, rows.tile.rows, keys(rows.tile.image, memory),
        values(rows.tile.image, memory), mixed, memory.dim,
        memory.threads.template at<void>(thread)});
  }

 private:
  [[nodiscard]] T* keys(std::int64_t image, const MixingMemory<T>& memory) const {
    return memory.keys.template at<T>(image);
  }
  [[nodiscard]] T* values(std::int64_t image, const MixingMemory<T>& memory) const {
    return memory.keys.behind(keys_bytes_).template at<T>(image);
  }

  kernels::softmax_attention::Shape shape_;
  float query_scale_;
  std::size_t keys_bytes_ = 0;
};

}  // namespace hydrascope::model::inference
