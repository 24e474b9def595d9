// Kernels by which measurements write, read and compare memory on the device. Words are of 16 bytes.
#pragma once

#include "kernels/device/stream.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::bench {

/// Every number that only time asks for, and what a test on the stand-in for CUDA takes instead.
#ifdef HYDRASCOPE_STAND_IN
constexpr std::int64_t sized(std::int64_t /*full*/, std::int64_t tiny) { return tiny; }
#else
constexpr std::int64_t sized(std::int64_t full, std::int64_t /*tiny*/) { return full; }
#endif

/// Reads `words`; `sink` is written only where they add up to a number that random data does not
/// give.
void read_memory(const void* from, std::size_t words, std::uint32_t* sink,
                 kernels::device::Stream stream);

/// Adds to `different` how many of the words differ in a bit.
void compare_memory(const void* expected, const void* found, std::size_t words,
                    std::uint64_t* different, kernels::device::Stream stream);

}  // namespace hydrascope::bench
