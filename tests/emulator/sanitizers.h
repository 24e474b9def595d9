// The emulator's words to the sanitizers: which stack runs, what happened before what, and which
// memory it touches on behalf of a thread. Every call is a no-op in a build without that sanitizer:
// the symbols are weak.
//
// The emulator itself is compiled without sanitizers: it is most of the cost, and its own variables
// are shared by all fibers without any order that TSan knows of.
#pragma once

#include <cstddef>

extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** from_bottom,
                                     std::size_t* from_size) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void* from, std::size_t size)
    __attribute__((weak));
void* __asan_region_is_poisoned(void* from, std::size_t size) __attribute__((weak));
void* __tsan_get_current_fiber() __attribute__((weak));
void* __tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void* fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void* fiber, unsigned flags) __attribute__((weak));
void __tsan_acquire(void* token) __attribute__((weak));
void __tsan_release(void* token) __attribute__((weak));
void __tsan_read_range(void* from, unsigned long size) __attribute__((weak));
void __tsan_write_range(void* from, unsigned long size) __attribute__((weak));
void AnnotateIgnoreWritesBegin(const char* file, int line) __attribute__((weak));
void AnnotateIgnoreWritesEnd(const char* file, int line) __attribute__((weak));
}

namespace emulator {

inline bool watched_for_races() { return __tsan_create_fiber != nullptr; }

/// All before `arrive` on a token has happened before all that follows `depart` on it.
inline void arrive(char& token) {
  if (__tsan_release) __tsan_release(&token);
}
inline void depart(char& token) {
  if (__tsan_acquire) __tsan_acquire(&token);
}

/// The running thread reads or writes this memory.
inline void note_read(const void* from, std::size_t bytes) {
  if (__tsan_read_range) __tsan_read_range(const_cast<void*>(from), bytes);
}
inline void note_write(void* to, std::size_t bytes) {
  if (__tsan_write_range) __tsan_write_range(to, bytes);
}

/// False where ASan knows that this memory is nobody's.
inline bool accessible(const void* from, std::size_t bytes) {
  return !__asan_region_is_poisoned ||
         __asan_region_is_poisoned(const_cast<void*>(from), bytes) == nullptr;
}

/// Heap blocks that are taken and returned meanwhile belong to no thread, and their history is
/// forgotten.
class NobodysHeap {
 public:
  NobodysHeap() {
    if (AnnotateIgnoreWritesBegin) AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~NobodysHeap() {
    if (AnnotateIgnoreWritesEnd) AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  }
  NobodysHeap(const NobodysHeap&) = delete;
  NobodysHeap& operator=(const NobodysHeap&) = delete;
};

}  // namespace emulator
