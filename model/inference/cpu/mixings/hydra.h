// Hydra (kernels/hydra), alone or beside softmax within windows, whose outputs are added.
#pragma once

#include "kernels/hydra/hydra.h"
#include "model/inference/cpu/mixings/frame_mean.h"
#include "model/inference/cpu/mixings/windows.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

/// The parameters of one layer of Hydra.
struct HydraParameters {
  kernels::hydra::Kernel kernel;
  std::vector<float> feature_scale;  ///< (D) or empty
  kernels::TokenWeights weights;
  double lambda =
      0;  ///< > 0: the global vector is a mean over the frames of a video (frame_mean.h)
};

/// The global vector of each image, from the sums of its tiles.
template <class T>
class HydraSums {
 public:
  HydraSums(const MixingSite& site, HydraParameters parameters)
      : dim_(site.dim()), parameters_(std::move(parameters)) {}

  [[nodiscard]] const kernels::hydra::Kernel& kernel() const { return parameters_.kernel; }
  /// The same for a tile and for an image.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(dim_) * sizeof(float); }
  [[nodiscard]] std::size_t video_bytes() const {
    return parameters_.lambda > 0 ? FrameWeight::kBytes + 2 * padded(bytes()) : 0;
  }

  /// Normalises the first `queries` queries in place.
  void absorb(const MixingRows<T>& rows, std::int64_t queries,
              const MixingMemory<T>& memory) const {
    kernels::hydra::ProjectParams<T> p{};
    p.q = rows.queries;
    p.q_stride = rows.query_stride;
    p.query_rows = queries;
    p.q_hat = rows.queries;
    p.q_hat_stride = rows.query_stride;
    p.k = rows.keys;
    p.v = rows.values;
    p.stride = rows.stride;
    p.rows = rows.tile.rows;
    p.dim = dim_;
    p.kernel = parameters_.kernel;
    p.weights = parameters_.weights.from(rows.tile.first);
    p.sum =
        memory.tiles.template at<float>(rows.tile.image * memory.tiles_per_image + rows.tile.index);
    kernels::hydra::project(p);
  }
  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const {
    const float* const scale =
        parameters_.feature_scale.empty() ? nullptr : parameters_.feature_scale.data();
    if (parameters_.lambda > 0) return combine_frames(meeting, memory, scale);
    meeting.run(meeting.images, [&](std::int64_t image, int) {
      kernels::hydra::combine(memory.tiles.template at<float>(image * memory.tiles_per_image),
                              memory.tiles_per_image, dim_, 1.0F, scale,
                              memory.images.template at<float>(image));
    });
  }

 private:
  /// The tiles' sums become the frame's, and with the mean before them the mean that gates read.
  void combine_frames(const Meeting& meeting, const MixingMemory<T>& memory,
                      const float* scale) const {
    StageClock clock(meeting.times);
    const FrameShares shares =
        FrameWeight(memory.video).next(static_cast<float>(parameters_.lambda), meeting.goes_on);
    auto* const mean = reinterpret_cast<float*>(memory.video + FrameWeight::kBytes);
    float* const frame = meeting.goes_on ? mean + padded(bytes()) / sizeof(float) : mean;
    kernels::hydra::combine(memory.tiles.template at<float>(0), memory.tiles_per_image, dim_, 1.0F,
                            nullptr, frame);
    for (std::int64_t f = 0; meeting.goes_on && f < dim_; ++f)
      mean[f] = shares.now * frame[f] + shares.before * mean[f];
    kernels::hydra::combine(mean, 1, dim_, 1.0F, scale, memory.images.template at<float>(0));
    clock.lap(Stage::attention);
  }

  std::int64_t dim_;
  HydraParameters parameters_;
};

template <class T>
class HydraMixing final : public Mixing<T> {
 public:
  HydraMixing(const MixingSite& site, HydraParameters parameters)
      : sums_(site, std::move(parameters)) {}

  MixingRoom plan(const Extent&) override {
    return {.tile = sums_.bytes(), .image = sums_.bytes(), .video = sums_.video_bytes()};
  }
  void absorb(const MixingRows<T>& rows, const MixingMemory<T>& memory, int) const override {
    sums_.absorb(rows, rows.queried, memory);
  }
  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    sums_.combine(meeting, memory);
  }
  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int, T* mixed) const override {
    kernels::hydra::gate(kernels::hydra::GateParams<T>{
        rows.queries, rows.query_stride, memory.images.template at<float>(rows.tile.image),
        rows.tile.rows, memory.dim, mixed, memory.dim});
  }

 private:
  HydraSums<T> sums_;
};

template <class T>
class HydraBesideWindowsMixing final : public Mixing<T> {
 public:
  /// Queries come divided by sqrt(d), as windows read them.
  HydraBesideWindowsMixing(const MixingSite& site, HydraParameters parameters,
                           PrefixWeights weights)
      : sums_(site, std::move(parameters)),
        windows_(site, std::move(weights)),
        query_rule_(sums_.kernel().query) {
    // With s = 1 / sqrt(d): s q / max(|s q|, s eps) = q / max(|q|, eps).
    query_rule_.eps /= std::sqrt(static_cast<float>(site.head_dim));
  }

  [[nodiscard]] MixingManner manner() const override {
    MixingManner manner = windows_.manner();
    manner.sees_windows_alone = false;
    manner.heads_apart = false;
    return manner;
  }
  MixingRoom plan(const Extent& extent) override {
    MixingRoom room = windows_.plan(extent);
    room.tile = sums_.bytes();
    room.image += padded(sums_.bytes());
    room.video = sums_.video_bytes();
    return room;
  }
  void absorb(const MixingRows<T>& rows, const MixingMemory<T>& memory, int) const override {
    sums_.absorb(rows, 0, memory);
  }
  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    sums_.combine(meeting, memory);
  }
  void mix(const MixingRows<T>& rows, const MixingMemory<T>& memory, int thread,
           T* mixed) const override {
    MixingMemory<T> of_windows = memory;
    of_windows.images = memory.images.behind(padded(sums_.bytes()));
    windows_.mix(rows, of_windows, thread, mixed);
    kernels::hydra::add_gated(kernels::hydra::AddGatedParams<T>{
        rows.queries, rows.query_stride, rows.tile.rows, memory.dim, query_rule_,
        memory.images.template at<float>(rows.tile.image), mixed, memory.dim});
  }

 private:
  HydraSums<T> sums_;
  WindowMixing<T> windows_;
  kernels::hydra::NormRule query_rule_;
};

}  // namespace hydrascope::model::inference
