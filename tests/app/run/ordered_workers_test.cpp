#include "app/run/ordered_workers.h"

#include "tests/under_sanitizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <latch>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace hydrascope::app {
namespace {

TEST(OrderedWorkersTest, SecondHalvesComeInOrderAndOneAtATime) {
  constexpr int kCount = 200;
  std::vector<int> order;
  std::atomic<int> at_once = 0;
  OrderedWorkers workers(4, 8);
  for (int i = 0; i < kCount; ++i) {
    workers.submit([&, i]() -> OrderedWorkers::Second {
      if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      return [&, i] {
        EXPECT_EQ(++at_once, 1);
        order.push_back(i);
        --at_once;
      };
    });
  }
  workers.finish();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(kCount));
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(OrderedWorkersTest, FirstHalvesRunSideBySide) {
  std::latch both(2);
  OrderedWorkers workers(2, 2);
  for (int i = 0; i < 2; ++i) {
    workers.submit([&]() -> OrderedWorkers::Second {
      both.arrive_and_wait();  // alone it would wait for ever
      return {};
    });
  }
  workers.finish();
}

TEST(OrderedWorkersTest, NoMoreThanAskedForIsPending) {
  std::atomic<int> pending = 0;
  std::atomic<int> most = 0;
  OrderedWorkers workers(3, 2);
  for (int i = 0; i < 30; ++i) {
    workers.submit([&]() -> OrderedWorkers::Second {
      const int now = ++pending;
      if (now > most) most = now;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return [&] { --pending; };
    });
  }
  workers.finish();
  EXPECT_LE(most, 2);
}

TEST(OrderedWorkersTest, AnExceptionOfEitherHalfEndsTheWorkAndIsThrown) {
  for (const bool in_first : {true, false}) {
    std::vector<int> done;
    {
      OrderedWorkers workers(2, 4);
      const auto run = [&] {
        for (int i = 0; i < 100; ++i) {
          workers.submit([&, i]() -> OrderedWorkers::Second {
            if (i == 5 && in_first) throw std::runtime_error("first");
            return [&, i] {
              if (i == 5) throw std::runtime_error("second");
              done.push_back(i);
            };
          });
        }
        workers.finish();
      };
      EXPECT_THROW(run(), std::runtime_error);
      EXPECT_THROW(workers.finish(), std::runtime_error);
    }
    EXPECT_LE(done.size(), 5U) << "nothing behind the failure";
  }
}

TEST(OrderedWorkersTest, WhatHasNotBegunIsDropped) {
  std::atomic<int> begun = 0;
  std::latch first_runs(1);
  std::binary_semaphore is_dropped(0);
  {
    OrderedWorkers workers(1, 10);
    workers.submit([&]() -> OrderedWorkers::Second {
      ++begun;
      first_runs.count_down();
      // Its thread is busy until the others are gone; only a failure of this test takes so long.
      EXPECT_TRUE(is_dropped.try_acquire_for(std::chrono::seconds(30)));
      return {};
    });
    first_runs.wait();
    // The last of the others to go says so.
    std::shared_ptr<void> others(nullptr, [&](void*) { is_dropped.release(); });
    for (int i = 0; i < 9; ++i) {
      workers.submit([&begun, others]() -> OrderedWorkers::Second {
        ++begun;
        return {};
      });
    }
  }
  EXPECT_EQ(begun, 1);
}

TEST(OrderedWorkersDeathTest, FewerThreadsDoTheWork) {
  SKIP_UNDER_SANITIZER();
  const auto work_with_little_room = [] {
    // A thread's stack takes 8 MiB of it.
    constexpr rlim_t kRoom = 44 << 20;
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(getpagesize()) + kRoom;
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
    int done = 0;
    {
      OrderedWorkers workers(64, 8);
      for (int i = 0; i < 20; ++i) workers.submit([&done] { return [&done] { ++done; }; });
      workers.finish();
    }
    _exit(done == 20 ? 0 : 1);
  };
  EXPECT_EXIT(work_with_little_room(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hydrascope::app
