// The order in which blocks, warps and lanes run.
#pragma once

#include <cstdint>

namespace emulator {

inline constexpr int kLanes = 32;
inline constexpr int kMaxWarps = 32;

class Schedule {
 public:
  explicit Schedule(unsigned seed);

  /// Which block is the `turn`-th of `count`.
  [[nodiscard]] std::int64_t block(std::int64_t turn, std::int64_t count) const;

  /// Chooses the orders for another round over all warps.
  void begin_pass(int warps);
  [[nodiscard]] int warp(int turn) const { return warps_[turn]; }
  [[nodiscard]] int lane(int turn) const { return lanes_[turn]; }
  /// Whether a warp goes on for as long as it can.
  [[nodiscard]] bool run_ahead() const { return seed_ >= 100; }

 private:
  std::uint64_t random();
  void shuffle(int* values, int count);

  unsigned seed_;
  std::uint64_t state_;
  int warps_[kMaxWarps] = {};
  int lanes_[kLanes] = {};
};

}  // namespace emulator
