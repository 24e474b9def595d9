// A plan's time by stage.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace hydrascope::model::inference {

enum class Stage { patch_embed, layer_norm, qkv, attention, proj, mlp, module, head };
inline constexpr std::size_t kNumStages = 8;
inline constexpr std::array<std::string_view, kNumStages> kStageNames{
    "patch_embed", "layer_norm", "qkv", "attention", "proj", "mlp", "module", "head"};

/// Seconds of all threads together.
struct StageTimes {
  std::array<double, kNumStages> seconds{};
  void add(const StageTimes& other) {
    for (std::size_t i = 0; i < kNumStages; ++i) seconds[i] += other.seconds[i];
  }
};

/// Counts the time since the last lap to a stage; costs nothing when there is nowhere to count it.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StageClock(StageTimes* times) : times_(times) {
    if (times_ != nullptr) last_ = Clock::now();
  }
  void lap(Stage stage) {
    if (times_ == nullptr) return;
    const Clock::time_point now = Clock::now();
    times_->seconds[static_cast<std::size_t>(stage)] +=
        std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  StageTimes* times_;
  Clock::time_point last_;
};

}  // namespace hydrascope::model::inference
