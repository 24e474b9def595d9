#include "app/ordered_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
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
    EXPECT_LE(done.size(), 5U) << "nothing behind the failure";
  }
}

TEST(OrderedWorkersTest, WhatHasNotBegunIsDropped) {
  std::atomic<int> begun = 0;
  std::latch release(1);
  {
    OrderedWorkers workers(1, 10);
    for (int i = 0; i < 10; ++i) {
      workers.submit([&]() -> OrderedWorkers::Second {
        ++begun;
        release.wait();
        return {};
      });
    }
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      release.count_down();
    });
    later.detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(begun, 10);
}

}  // namespace
}  // namespace hydrascope::app
