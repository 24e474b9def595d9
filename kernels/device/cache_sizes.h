// Sizes of the data caches that one core sees, for choosing tiles at run time.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::device {

struct CacheSizes {
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 512 << 10;
};

/// As the operating system reports them; what it hides keeps the default above.
CacheSizes cache_sizes();

}  // namespace hydrascope::kernels::device
