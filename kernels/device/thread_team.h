// A fixed team of threads for one caller: hands out numbered work items, as fast as the threads
// finish them. Free of locks and of allocations per call; waits spin briefly, then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::device {

class ThreadTeam {
 public:
  /// `size` threads at work, the caller among them; at least 1.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(item, thread) for item in [0, count), each once, on threads [0, size()); returns
  /// when all are done and their writes are visible. Which thread gets which item varies. One call
  /// at a time, not from within `work`. Rethrows the first exception of `work` after all ended.
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

  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::exception_ptr failure_;
  std::int64_t count_ = 0;
  Erased call_ = nullptr;
  void* state_ = nullptr;
};

}  // namespace hydrascope::kernels::device
