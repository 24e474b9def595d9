#pragma once

#include "kernels/device/stream.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::bench {

/// Reads `words` 16-byte words; `sink` is written only where they add up to a number that random
/// data does not give.
void read_memory(const void* from, std::size_t words, std::uint32_t* sink,
                 kernels::device::Stream stream);

}  // namespace hydrascope::bench
