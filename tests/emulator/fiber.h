// Fibers: stacks to run on, and the switch between them.
#pragma once

#include <cstddef>

namespace emulator {

/// A stack of its own, or (without `memory`) the one that the host's code runs on.
struct Fiber {
  void* stack_pointer = nullptr;  ///< where it was left
  char* memory = nullptr;         ///< a guard page, then the stack
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fake_stack = nullptr;  ///< ASan's, of locals that outlive their function
  void* tsan = nullptr;        ///< what TSan takes for a thread
};

/// The first switch to it calls `entry`, which must not return and begins with `fiber_entered`.
void create_fiber(Fiber& fiber, void (*entry)());
/// As if just created, whatever it was in the middle of: nothing is unwound.
void restart_fiber(Fiber& fiber, void (*entry)());
void destroy_fiber(Fiber& fiber);
/// Makes `host` stand for the stack that is running.
void adopt_host(Fiber& host);

/// Returns when somebody switches back to `from`. Orders nothing between the two, as TSan sees it.
void switch_fiber(Fiber& from, Fiber& to);
void fiber_entered();

/// The host's work so far has happened before the next work of `fiber`, and the reverse. Called on
/// the host's stack.
void order_host_before(const Fiber& host, const Fiber& fiber);
void order_before_host(const Fiber& fiber, const Fiber& host);

}  // namespace emulator
