// Accesses to global memory that a test has asked for.
#include "tests/emulator/block.h"
#include "tests/emulator/sanitizers.h"

#include <cstdlib>

namespace emulator {
namespace {

Access* kept_accesses = nullptr;
std::size_t kept_count = 0;
std::size_t kept_capacity = 0;

}  // namespace

void watch_accesses(bool on) {
  if (on) kept_count = 0;
  accesses_are_watched = on;
}

std::span<const Access> accesses() { return {kept_accesses, kept_count}; }

void keep_access(const void* at, int bytes, bool writes, const Site& site) {
  Block& block = running_block();
  if (block.in_shared(at, static_cast<std::size_t>(bytes))) return;
  if (kept_count == kept_capacity) {
    const NobodysHeap heap;
    kept_capacity = 2 * kept_capacity + 1024;
    kept_accesses =
        static_cast<Access*>(std::realloc(kept_accesses, kept_capacity * sizeof(Access)));
  }
  const int number = block.current().number;
  Access& added = kept_accesses[kept_count++];
  added.site = site;
  added.at = at;
  added.bytes = bytes;
  added.writes = writes;
  added.warp = block.number() * kMaxWarps + number / kLanes;
  added.lane = number % kLanes;
}

}  // namespace emulator
