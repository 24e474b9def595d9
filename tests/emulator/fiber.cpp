#include "tests/emulator/fiber.h"

#include "tests/emulator/sanitizers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

// Saves what the System V ABI lets a function expect to keep, changes the stack, restores.
// swapcontext also saves the signal mask, by a system call: some forty times as slow.
asm(R"(
.text
.type emulator_switch_stack, @function
emulator_switch_stack:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size emulator_switch_stack, . - emulator_switch_stack
)");
extern "C" void emulator_switch_stack(void** left, void* entered);

namespace emulator {
namespace {

// A report of ASan, printed on the fiber's own stack, is what needs most of it. Only what is
// touched is real memory.
constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kCacheLine = 64;
constexpr int kSavedRegisters = 6;
constexpr unsigned kSync = 0;
constexpr unsigned kNoSync = 1;

Fiber* switched_from = nullptr;
Fiber* switched_to = nullptr;

void prepare_stack(Fiber& fiber, void (*entry)()) {
  // Stacks that all begin at the same offset in a page would fight for the same lines of the L1
  // cache.
  static unsigned colour = 0;
  colour = (colour + 7) % 64;
  auto* top = reinterpret_cast<std::uintptr_t*>(fiber.memory + kGuardBytes + kStackBytes -
                                                kCacheLine * colour);
  *--top = 0;  // keeps the stack aligned as after a call, and ends the chain of return addresses
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = 0;
  fiber.stack_pointer = top;
  fiber.fake_stack = nullptr;
}

}  // namespace

void create_fiber(Fiber& fiber, void (*entry)()) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    std::perror("emulator: no memory for the stack of a fiber");
    std::abort();
  }
  fiber.memory = static_cast<char*>(memory);
  fiber.bottom = fiber.memory + kGuardBytes;
  fiber.size = kStackBytes;
  prepare_stack(fiber, entry);
  if (__tsan_create_fiber) fiber.tsan = __tsan_create_fiber(0);
}

void restart_fiber(Fiber& fiber, void (*entry)()) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(fiber.bottom, fiber.size);
  prepare_stack(fiber, entry);
  if (__tsan_destroy_fiber) {  // TSan's copy of the call stack can only be emptied with all else
    __tsan_destroy_fiber(fiber.tsan);
    fiber.tsan = __tsan_create_fiber(0);
  }
}

void destroy_fiber(Fiber& fiber) {
  if (fiber.memory == nullptr) return;
  if (__tsan_destroy_fiber) __tsan_destroy_fiber(fiber.tsan);
  munmap(fiber.memory, kGuardBytes + kStackBytes);
  fiber = {};
}

void adopt_host(Fiber& host) {
  if (__tsan_get_current_fiber) host.tsan = __tsan_get_current_fiber();
}

void switch_fiber(Fiber& from, Fiber& to) {
  switched_from = &from;
  switched_to = &to;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to.tsan, kNoSync);
  emulator_switch_stack(&from.stack_pointer, to.stack_pointer);
  fiber_entered();
}

void fiber_entered() {
  // Also how the bounds of the host's stack become known.
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(switched_to->fake_stack, &switched_from->bottom,
                                    &switched_from->size);
}

void order_host_before(const Fiber& host, const Fiber& fiber) {
  if (!__tsan_switch_to_fiber) return;
  __tsan_switch_to_fiber(fiber.tsan, kSync);
  __tsan_switch_to_fiber(host.tsan, kNoSync);
}

void order_before_host(const Fiber& fiber, const Fiber& host) {
  if (!__tsan_switch_to_fiber) return;
  __tsan_switch_to_fiber(fiber.tsan, kNoSync);
  __tsan_switch_to_fiber(host.tsan, kSync);
}

}  // namespace emulator
