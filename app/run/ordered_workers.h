// Work in two halves: the first on any of some threads, the second one at a time and in the order
// in which the work was handed in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace hydrascope::app {

class OrderedWorkers {
 public:
  using Second = std::function<void()>;  ///< what has to happen in order; may be empty
  using First = std::function<Second()>;

  /// At most `most_pending` pieces of work (1 or more) are handed in and not done. Takes fewer
  /// threads where the system gives no more. Throws Error(out_of_memory) where it gives none.
  OrderedWorkers(int threads, std::int64_t most_pending);
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;
  /// Work that has not begun is dropped, at once; work that has begun is waited for.
  ~OrderedWorkers();

  /// Waits for a place. After an exception in one of the halves nothing more is run, and this and
  /// `finish` throw it.
  void submit(First work);
  /// Waits until all is done.
  void finish();

 private:
  void run();
  /// Under the lock, which it gives up while a second half runs.
  void run_seconds(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_over() const { return stopping_ || failure_ != nullptr; }

  const std::int64_t most_pending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Everything below is guarded by mutex_, the threads themselves apart.
  std::deque<First> waiting_;
  std::map<std::int64_t, Second> halfway_;  // by their place in the order
  std::int64_t submitted_ = 0;
  std::int64_t begun_ = 0;
  std::int64_t done_ = 0;
  bool second_runs_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace hydrascope::app
