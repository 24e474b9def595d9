// The most that this machine's processor does, by loops that do nothing else: the wall that a program's
// rate is compared with.
//   products   multiply-adds of registers by the instruction that the kernels use: AMX, vdpbf16ps, vpdpbusd
//              or the vectors' own (float32 for bfloat16, vpmaddwd with its addition for 8 bits)
//   reads      each thread from half of its L2 cache, and all threads together from memory that is four
//              times as large as the last cache (64 MB to 1 GB)
// Each rate is the best of several rounds of milliseconds, on all threads of a team at once. What
// disturbs a round makes it slower, never faster.
// Test: tests/kernels/device/cpu_ceiling_test.cpp.
#pragma once

#include "kernels/device/thread_team.h"

namespace hydrascope::kernels::device {

/// Operations per second (a multiply-add is two) and bytes per second, of all threads together.
struct CpuCeiling {
  double float32 = 0;
  double bfloat16 = 0;
  double int8 = 0;
  double l2_read = 0;
  double memory_read = 0;
};

/// Takes about a third of a second.
CpuCeiling measure_ceiling(ThreadTeam& team);

}  // namespace hydrascope::kernels::device
