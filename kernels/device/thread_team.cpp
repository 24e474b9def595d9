#include "kernels/device/thread_team.h"

#include "kernels/device/processors.h"

#include <utility>

namespace hydrascope::kernels::device {
namespace {

// Some half a millisecond: longer than a thread waits for the last tile of a layer (waking a
// sleeping one costs more than that tile), shorter than anything a person notices on an idle
// machine.
constexpr int kSpins = 40000;

/// Tells the processor that this thread only waits.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");  // takes about as long; `yield` takes no time at all
#endif
}

template <class Done>
bool spin_until(Done done) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done()) return true;
    // On a busy machine the awaited thread may want this very processor.
    if (spin % 1024 == 1023)
      std::this_thread::yield();
    else
      pause();
  }
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(int size) {
  if (size > 1) start_threads(workers_, size - 1, [this](int place) { worker(place + 1); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_erased(std::int64_t count, Erased call, void* state) {
  if (count <= 0) return;
  count_ = count;
  call_ = call;
  state_ = state;
  failed_.clear(std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  if (count > 1 && !workers_.empty()) {
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    work_on_items(0);
    const auto done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
    while (!spin_until(done)) {
      const int busy = busy_.load(std::memory_order_acquire);
      if (busy != 0) busy_.wait(busy, std::memory_order_acquire);
    }
  } else {
    work_on_items(0);
  }
  if (failed_.test(std::memory_order_acquire))
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadTeam::work_on_items(int thread) noexcept {
  try {
    for (;;) {
      const std::int64_t item = next_.fetch_add(1, std::memory_order_relaxed);
      if (item >= count_) return;
      call_(state_, item, thread);
    }
  } catch (...) {
    next_.store(count_, std::memory_order_relaxed);  // the others take no more items
    if (!failed_.test_and_set(std::memory_order_acq_rel)) failure_ = std::current_exception();
  }
}

void ThreadTeam::worker(int thread) noexcept {
  std::uint32_t seen = 0;
  for (;;) {
    const auto changed = [this, seen] {
      return generation_.load(std::memory_order_acquire) != seen;
    };
    while (!spin_until(changed)) generation_.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    work_on_items(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace hydrascope::kernels::device
