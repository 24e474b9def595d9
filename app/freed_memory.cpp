#include "app/freed_memory.h"

#include <cstdlib>  // defines __GLIBC__
#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hydrascope::app {

void keep_freed_memory() noexcept {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 1 << 25;  // what glibc accepts at most
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 1 << 26);
#endif
}

}  // namespace hydrascope::app
