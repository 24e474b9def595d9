// Copies in the background. The least helpful order that a GPU may choose: the destination is lost
// at once, and the bytes arrive at the last moment.
#include "tests/emulator/block.h"
#include "tests/emulator/sanitizers.h"

#include <cstring>

namespace emulator {
namespace {

constexpr int kCopyBytes = 16;

void land(const AsyncCopy& copy) {
  if (copy.bytes > 0) note_read(copy.from, kCopyBytes);
  note_write(copy.to, kCopyBytes);
  if (copy.bytes > 0)
    std::memcpy(copy.to, copy.from, kCopyBytes);
  else
    std::memset(copy.to, 0, kCopyBytes);
}

}  // namespace

void copy_async(void* shared, const void* global, int bytes, const Site& site) {
  Block& block = running_block();
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kCopyBytes == 0;
  };
  if (!block.in_shared(shared, kCopyBytes))
    block.fail("copies to a place outside of the block's shared memory at " + text(site));
  if (!aligned(shared))
    block.fail("copies to an address that is not aligned to 16 bytes at " + text(site));
  if (!aligned(global))
    block.fail("copies from an address that is not aligned to 16 bytes at " + text(site));
  AsyncCopies& own = *block.current().copies;
  if (own.count == AsyncCopies::kMax)
    block.fail("has " + std::to_string(own.count) + " copies on their way at " + text(site) +
               "; the emulator holds no more");
  if (bytes > 0) {
    if (!accessible(global, kCopyBytes))
      block.fail("copies from memory that it may not read at " + text(site));
    note_read(global, kCopyBytes);
  }
  note_write(shared, kCopyBytes);
  for (int i = 0; i < kCopyBytes; i += 4)
    std::memcpy(static_cast<char*>(shared) + i, &kPoison, sizeof kPoison);
  AsyncCopy& copy = own.copies[own.count++];
  copy.to = shared;
  copy.from = global;
  copy.bytes = bytes;
  copy.group = own.groups;
  copy.site = site;
}

void copy_commit() { ++running_block().current().copies->groups; }

void copy_wait(int pending) {
  AsyncCopies& own = *running_block().current().copies;
  int landed = 0;
  while (landed < own.count && own.copies[landed].group < own.groups - pending)
    land(own.copies[landed++]);
  own.count -= landed;
  for (int i = 0; i < own.count; ++i) own.copies[i] = own.copies[i + landed];
}

std::string unfinished_copy(const AsyncCopies& copies) {
  if (copies.count == 0) return {};
  const AsyncCopy& copy = copies.copies[0];
  return "returns without waiting for its copy of " + text(copy.site) +
         (copy.group == copies.groups ? ", which is in no committed group" : "");
}

}  // namespace emulator
