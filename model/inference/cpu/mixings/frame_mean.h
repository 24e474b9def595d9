// Means over the frames of a video, which a mixing keeps from call to call: a frame weighs lambda times as
// much as the next one (model/attention/memories/state.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// The shares of a frame and of the mean before it; they sum to 1.
struct FrameShares {
  float now = 1;
  float before = 0;
};

/// The weight of all frames so far, at the begin of a mixing's memory of a video (MixingRoom::video).
class FrameWeight {
 public:
  static constexpr std::size_t kBytes = 64;

  explicit FrameWeight(std::byte* memory) : weight_(*reinterpret_cast<float*>(memory)) {}
  /// The shares of the next frame, whose weight joins; `goes_on`: it is not the first.
  [[nodiscard]] FrameShares next(float lambda, bool goes_on) const {
    const float before = goes_on ? lambda * weight_ : 0.0F;
    weight_ = 1 + before;
    return {1 / weight_, before / weight_};
  }

 private:
  float& weight_;
};

}  // namespace hydrascope::model::inference
