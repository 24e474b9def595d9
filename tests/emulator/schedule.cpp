#include "tests/emulator/schedule.h"

#include <numeric>

namespace emulator {

Schedule::Schedule(unsigned seed) : seed_(seed), state_(0x9e3779b97f4a7c15U * (seed + 1U)) {}

std::int64_t Schedule::block(std::int64_t turn, std::int64_t count) const {
  if (seed_ == 0) return turn;
  if (seed_ == 1) return count - 1 - turn;
  // turn -> step * turn + start is a permutation where step and count have no common divisor.
  std::int64_t step = count * 5 / 8 + seed_ % 7;
  while (std::gcd(step, count) != 1) ++step;
  return (step % count * turn + static_cast<std::int64_t>(seed_)) % count;
}

void Schedule::begin_pass(int warps) {
  for (int i = 0; i < warps; ++i) warps_[i] = seed_ == 1 ? warps - 1 - i : i;
  for (int i = 0; i < kLanes; ++i) lanes_[i] = seed_ == 1 ? kLanes - 1 - i : i;
  if (seed_ < 2) return;
  shuffle(warps_, warps);
  shuffle(lanes_, kLanes);
}

std::uint64_t Schedule::random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

void Schedule::shuffle(int* values, int count) {
  for (int i = count - 1; i > 0; --i) {
    const auto j = static_cast<int>((random() >> 32) * static_cast<std::uint64_t>(i + 1) >> 32);
    const int moved = values[i];
    values[i] = values[j];
    values[j] = moved;
  }
}

}  // namespace emulator
