// Threads for what is left of answers when the model is done with them, drawing, encoding, text; and for opening models.
#pragma once

#include "kernels/device/processors.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hydrascope::app {

class TaskThreads {
 public:
  explicit TaskThreads(int threads) {
    kernels::device::start_threads(threads_, threads, [this](int) { work(); });
  }
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;
  /// Does what has been added.
  ~TaskThreads() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  /// `task` throws nothing.
  void add(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void work() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded
  bool ending_ = false;                      // guarded
  std::vector<std::thread> threads_;
};

}  // namespace hydrascope::app
