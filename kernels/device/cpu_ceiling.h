// The most that this machine's processor does, by loops that do nothing else: the wall that a program's
// rate is compared with.
//   products   multiply-adds of registers by the instruction that the kernels use: AMX, vdpbf16ps, vpdpbusd
//              or the vectors' own (float32 for bfloat16, vpmaddwd with its addition for 8 bits)
//   reads      each thread from half of its L2 cache, and all threads together from memory that is four
//              times as large as the last caches (64 MB to 1 GB)
// Each rate is the best of many rounds of milliseconds, on all threads of a team at once: a disturbance makes a
// round slower, never faster. The rates take turns, so that a short one meets each of them in some turns only. A
// rate is done when three turns in a row have not raised it by more than 1 % and it is not disturbed, or after
// twelve turns. A machine that is disturbed evenly all the time cannot be told from a slower one.
// Test: tests/kernels/device/cpu_ceiling_test.cpp.
#pragma once

#include "kernels/device/thread_team.h"

#include <span>

namespace hydrascope::kernels::device {

/// Operations (a multiply-add is two) or bytes per second, of all threads together.
struct CpuRate {
  double best = 0;
  bool disturbed = false;  ///< by `is_disturbed`: the best may be too low
};

struct CpuCeiling {
  int threads = 1;
  CpuRate float32;
  CpuRate bfloat16;
  CpuRate int8;
  CpuRate l2_read;
  CpuRate memory_read;
};

/// Whether the machine did something else in rounds of these rates: their median is below 85 % of the best,
/// or the best is below 60 % of `expected`, which is one thread's rate times the threads' cores. Cores that
/// are all at work have a lower clock than one alone, by up to 30 % on servers. Threads share memory,
/// so nothing is expected of it: 0. At least one round.
bool is_disturbed(std::span<const double> rounds, double expected);

/// Takes about a second, at most three on a machine that is disturbed.
CpuCeiling measure_ceiling(ThreadTeam& team);

}  // namespace hydrascope::kernels::device
