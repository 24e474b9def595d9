#include "kernels/device/thread_team.h"

#include "kernels/device/processors.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <queue>
#include <utility>

namespace hydrascope::kernels::device {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than a thread waits for the last tile of a layer (waking a sleeping one costs more than that
// tile), shorter than anything a person notices on an idle machine. By the clock: a pause takes 40
// cycles on one processor and 140 on another.
constexpr std::chrono::microseconds kSpinning(500);

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
  constexpr int kPauses = 64;  // between two looks at the clock
  // On a busy machine the awaited thread may want this very processor.
  constexpr int kLooksOfATurn = 16;
  const Clock::time_point end = Clock::now() + kSpinning;
  for (int looks = 1; Clock::now() < end; ++looks) {
    for (int i = 0; i < kPauses; ++i) {
      if (done()) return true;
      pause();
    }
    if (looks % kLooksOfATurn == 0) std::this_thread::yield();
  }
  return false;
}

}  // namespace

double end_of_run(std::span<const double> items, int size) {
  const std::int64_t count = std::ssize(items);
  std::vector<Share> left;
  for (int thread = 0; thread < size; ++thread) left.push_back(share_of(count, size, thread));
  using Free = std::pair<double, int>;  // from then on, a thread
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (int thread = 0; thread < size; ++thread) free.emplace(0, thread);
  double end = 0;
  for (std::int64_t done = 0; done < count; ++done) {
    const auto [since, thread] = free.top();
    free.pop();
    int owner = thread;
    while (left[static_cast<std::size_t>(owner)].first == left[static_cast<std::size_t>(owner)].end)
      owner = (owner + 1) % size;
    const std::int64_t item = left[static_cast<std::size_t>(owner)].first++;
    const double until = since + items[static_cast<std::size_t>(item)];
    free.emplace(until, thread);
    end = std::max(end, until);
  }
  return end;
}

ThreadTeam::ThreadTeam(int size) {
  if (size > 1) start_threads(workers_, size - 1, [this](int place) { worker(place + 1); });
  size_ = static_cast<int>(workers_.size()) + 1;
  left_ = std::make_unique<Left[]>(static_cast<std::size_t>(size_));
}

ThreadTeam::ThreadTeam(int size, Rehearsal& rehearsal)
    : size_(std::max(1, size)), rehearsal_(&rehearsal) {}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_erased(std::int64_t count, Erased call, void* state) {
  if (count <= 0) return;
  if (rehearsal_ != nullptr) {
    std::vector<double>& seconds = rehearsal_->emplace_back();
    for (std::int64_t item = 0; item < count; ++item) {
      const Clock::time_point begin = Clock::now();
      call(state, item, 0);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return;
  }
  call_ = call;
  state_ = state;
  failed_.clear(std::memory_order_relaxed);
  for (int thread = 0; thread < size_; ++thread) {
    const Share share = share_of(count, size_, thread);
    left_[static_cast<std::size_t>(thread)].next.store(share.first, std::memory_order_relaxed);
    left_[static_cast<std::size_t>(thread)].end = share.end;
  }
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
    for (int place = 0; place < size_; ++place) {
      Left& left = left_[static_cast<std::size_t>((thread + place) % size_)];
      // Looking before taking leaves the cache line of a finished share to all.
      while (left.next.load(std::memory_order_relaxed) < left.end) {
        const std::int64_t item = left.next.fetch_add(1, std::memory_order_relaxed);
        if (item >= left.end) break;
        call_(state_, item, thread);
      }
    }
  } catch (...) {
    for (int place = 0; place < size_; ++place) {  // the others take no more items
      Left& left = left_[static_cast<std::size_t>(place)];
      left.next.store(left.end, std::memory_order_relaxed);
    }
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
