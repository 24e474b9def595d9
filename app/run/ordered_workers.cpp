#include "app/run/ordered_workers.h"

#include "kernels/device/processors.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {

OrderedWorkers::OrderedWorkers(int threads, std::int64_t most_pending)
    : most_pending_(std::max<std::int64_t>(most_pending, 1)) {
  kernels::device::start_threads(threads_, std::max(threads, 1), [this](int) { run(); });
}

OrderedWorkers::~OrderedWorkers() {
  std::deque<First> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  dropped.clear();
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void OrderedWorkers::submit(First work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || submitted_ - done_ < most_pending_; });
  if (failure_) std::rethrow_exception(failure_);
  waiting_.push_back(std::move(work));
  ++submitted_;
  changed_.notify_all();
}

void OrderedWorkers::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || done_ == submitted_; });
  if (failure_) std::rethrow_exception(failure_);
}

void OrderedWorkers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over() || !waiting_.empty(); });
    if (is_over()) return;
    First first = std::move(waiting_.front());
    waiting_.pop_front();
    const std::int64_t place = begun_++;
    lock.unlock();
    Second second;
    std::exception_ptr failure;
    try {
      second = first();
    } catch (...) {
      failure = std::current_exception();
    }
    first = nullptr;  // what it held is free before anything waits
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    halfway_.emplace(place, std::move(second));
    run_seconds(lock);
    changed_.notify_all();
  }
}

void OrderedWorkers::run_seconds(std::unique_lock<std::mutex>& lock) {
  if (second_runs_) return;  // its thread will come to what is new
  second_runs_ = true;
  while (!is_over()) {
    const auto next = halfway_.find(done_);
    if (next == halfway_.end()) break;
    Second second = std::move(next->second);
    halfway_.erase(next);
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (second) second();
    } catch (...) {
      failure = std::current_exception();
    }
    second = nullptr;
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
  second_runs_ = false;
}

}  // namespace hydrascope::app
