#include "kernels/device/cache_sizes.h"

#include <unistd.h>

namespace hydrascope::kernels::device {

CacheSizes cache_sizes() {
  CacheSizes sizes;
  if (const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); l1 > 0) sizes.l1_bytes = l1;
  if (const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); l2 > 0) sizes.l2_bytes = l2;
  return sizes;
}

}  // namespace hydrascope::kernels::device
