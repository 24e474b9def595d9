// A fixed team of threads for one caller. Each thread has its share of the numbered work items, the same in
// every call of as many items, so that memory which an item touched first or last is near its thread; who
// is done takes items of the others. Free of locks and of allocations per call; waits spin briefly, then
// sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::device {

/// Items first .. end of `count`, the share of thread `place` of `size`. Shares differ by one item at most.
struct Share {
  std::int64_t first;
  std::int64_t end;
};
constexpr Share share_of(std::int64_t count, std::int64_t size, std::int64_t place) {
  const std::int64_t least = count / size;
  const std::int64_t more = count % size;
  const auto before = [&](std::int64_t n) { return n * least + (n < more ? n : more); };
  return {before(place), before(place + 1)};
}

/// The time after which a team of `size` has done items that take so long each.
double end_of_run(std::span<const double> items, int size);

/// Seconds of each item of each call of `run`, in their order.
using Rehearsal = std::vector<std::vector<double>>;

class ThreadTeam {
 public:
  /// `size` threads at work, the caller among them; at least 1.
  explicit ThreadTeam(int size);
  /// A team without threads: the caller does every item as thread 0, and its time is added to `rehearsal`.
  /// For schedules of more threads than there are processors.
  ThreadTeam(int size, Rehearsal& rehearsal);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Calls work(item, thread) for item in [0, count), each once, on threads [0, size()); returns
  /// when all are done and their writes are visible. A thread begins with its share_of; which thread
  /// gets an item in the end varies. One call at a time, not from within `work`. Rethrows the first exception of `work` after all ended.
  template <class Work>
  void run(std::int64_t count, Work&& work) {
    using Callable = std::remove_reference_t<Work>;
    run_erased(
        count,
        [](void* state, std::int64_t item, int thread) {
          (*static_cast<Callable*>(state))(item, thread);
        },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Erased = void (*)(void* state, std::int64_t item, int thread);
  void run_erased(std::int64_t count, Erased call, void* state);
  void work_on_items(int thread) noexcept;
  void worker(int thread) noexcept;

  /// The rest of a thread's share, on a cache line of its own: others look at it only when they are done.
  struct alignas(64) Left {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  std::vector<std::thread> workers_;
  int size_;
  std::unique_ptr<Left[]> left_;
  Rehearsal* rehearsal_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::exception_ptr failure_;
  Erased call_ = nullptr;
  void* state_ = nullptr;
};

/// work(item) for item in [0, count), by the team or, without one, by the caller in order.
template <class Work>
void for_each_of(ThreadTeam* team, std::int64_t count, const Work& work) {
  if (team != nullptr) return team->run(count, [&](std::int64_t item, int) { work(item); });
  for (std::int64_t item = 0; item < count; ++item) work(item);
}

}  // namespace hydrascope::kernels::device
