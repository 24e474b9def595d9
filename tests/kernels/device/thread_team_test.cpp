#include "kernels/device/thread_team.h"

#include "kernels/device/cpu_features.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hydrascope::kernels::device {
namespace {

/// Teams larger than the machine must sleep and wake as well.
class ThreadTeamOfSize : public ::testing::TestWithParam<int> {
 protected:
  /// Thousands of runs, but few where threads share a core: there each may cost a time slice.
  static int many() { return GetParam() <= 2 ? 5000 : 300; }
};
INSTANTIATE_TEST_SUITE_P(All, ThreadTeamOfSize, ::testing::Values(1, 2, 3, 8),
                         ::testing::PrintToStringParamName());

TEST_P(ThreadTeamOfSize, HandsOutEveryItemOnce) {
  ThreadTeam team(GetParam());
  EXPECT_EQ(team.size(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
    std::atomic<bool> thread_in_range{true};
    team.run(count, [&](std::int64_t item, int thread) {
      if (thread < 0 || thread >= team.size()) thread_in_range = false;
      ++times.at(static_cast<std::size_t>(item));
    });
    for (const std::atomic<int>& n : times) EXPECT_EQ(n, 1);
    EXPECT_TRUE(thread_in_range);
  }
}

TEST_P(ThreadTeamOfSize, WritesOfEachRunAreVisibleToCallerAndToTheNextRun) {
  // Plain memory: the thread sanitizer sees every pair of accesses that nothing orders.
  ThreadTeam team(GetParam());
  constexpr std::int64_t kItems = 16;
  std::vector<std::int64_t> values(kItems, 0);
  std::vector<std::int64_t> before(kItems, 0);
  for (std::int64_t run = 1; run <= many(); ++run) {
    before.swap(values);
    team.run(kItems, [&](std::int64_t item, int) {  // reads what another thread may have written
      values[static_cast<std::size_t>(item)] =
          before[static_cast<std::size_t>((item + 1) % kItems)] + 1;
    });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), run * kItems);
  }
}

TEST_P(ThreadTeamOfSize, MemoryOfAThreadIsItsOwn) {
  ThreadTeam team(GetParam());
  std::vector<std::int64_t> sums(static_cast<std::size_t>(team.size()), 0);
  for (int run = 0; run < 200; ++run)
    team.run(
        50, [&](std::int64_t item, int thread) { sums[static_cast<std::size_t>(thread)] += item; });
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}), 200 * 49 * 50 / 2);
}

TEST_P(ThreadTeamOfSize, RethrowsAndStaysUsable) {
  ThreadTeam team(GetParam());
  for (int time = 0; time < 50; ++time) {
    std::atomic<int> inside{0};
    try {
      team.run(100, [&](std::int64_t item, int) {
        // Several throw; the caller gets one of them, when nobody is at work any more.
        if (item % 10 == 3) throw std::runtime_error("item " + std::to_string(item));
        ++inside;
        std::this_thread::yield();
        --inside;
      });
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("item ", 0), 0U);
      EXPECT_EQ(std::string(error.what()).back(), '3');
    }
    EXPECT_EQ(inside, 0);
    std::atomic<std::int64_t> sum{0};
    team.run(100, [&](std::int64_t item, int) { sum += item; });
    EXPECT_EQ(sum, 4950);
  }
}

TEST_P(ThreadTeamOfSize, TakesNoNewItemsAfterAnException) {
  ThreadTeam team(GetParam());
  std::atomic<std::int64_t> started{0};
  EXPECT_THROW(team.run(1'000'000,
                        [&](std::int64_t, int) {
                          ++started;
                          throw std::runtime_error("at once");
                        }),
               std::runtime_error);
  EXPECT_LE(started, team.size());
}

TEST_P(ThreadTeamOfSize, AnExceptionOfASingleItemReachesTheCaller) {
  ThreadTeam team(GetParam());
  EXPECT_THROW(team.run(1, [](std::int64_t, int) { throw 7; }), int);
  int calls = 0;
  team.run(1, [&](std::int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_P(ThreadTeamOfSize, WakesAfterSleeping) {
  ThreadTeam team(GetParam());
  for (int time = 0; time < 3; ++time) {
    // Far longer than the workers spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> done{0};
    team.run(8, [&](std::int64_t, int) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the caller sleeps for the last
      ++done;
    });
    EXPECT_EQ(done, 8);
  }
}

TEST_P(ThreadTeamOfSize, ManySmallRunsAndShortLives) {
  constexpr int kLives = 10;  // the first ends before its workers have begun
  for (int life = 0; life < kLives; ++life) {
    ThreadTeam team(GetParam());
    std::atomic<std::int64_t> sum{0};
    std::int64_t expected = 0;
    for (int run = 0; run < life * many() / (5 * kLives); ++run) {
      const std::int64_t count = 1 + run % 3;
      expected += count * (count + 1) / 2;
      team.run(count, [&](std::int64_t item, int) { sum += item + 1; });
    }
    ASSERT_EQ(sum, expected);
  }
}

TEST(ThreadTeam, SharesCoverAllItemsInOrder) {
  for (const std::int64_t count : {0, 1, 5, 64, 1000}) {
    for (const int size : {1, 3, 64}) {
      std::int64_t end = 0;
      for (int thread = 0; thread < size; ++thread) {
        const Share share = share_of(count, size, thread);
        EXPECT_EQ(share.first, end);
        EXPECT_GE(share.end - share.first, count / size);
        EXPECT_LE(share.end - share.first, count / size + 1);
        end = share.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(ThreadTeam, WhoIsDoneTakesItemsOfTheOthers) {
  const std::vector<double> even(8, 1.0);
  EXPECT_DOUBLE_EQ(end_of_run(even, 1), 8);
  EXPECT_DOUBLE_EQ(end_of_run(even, 4), 2);
  EXPECT_DOUBLE_EQ(end_of_run(even, 16), 1);
  EXPECT_DOUBLE_EQ(end_of_run(std::vector{4.0, 1.0, 1.0, 1.0}, 2), 4)
      << "3 and its own 1 on the other";
  EXPECT_DOUBLE_EQ(end_of_run({}, 2), 0);
  // As the threads themselves: the first thread's first item ends when the other thread has done the rest.
  ThreadTeam team(2);
  std::atomic<int> others{0};
  team.run(4, [&](std::int64_t item, int) {
    if (item == 0)
      while (others < 3) std::this_thread::yield();
    else
      ++others;
  });
  EXPECT_EQ(others, 3);
}

TEST(ThreadTeam, ARehearsalIsOneThreadAndTakesTheTimeOfEveryItem) {
  Rehearsal rehearsal;
  ThreadTeam team(64, rehearsal);
  EXPECT_EQ(team.size(), 64);
  std::vector<std::int64_t> items;
  for (const std::int64_t count : {3, 0, 1})
    team.run(count, [&](std::int64_t item, int thread) {
      EXPECT_EQ(thread, 0);
      items.push_back(item);
    });
  EXPECT_EQ(items, (std::vector<std::int64_t>{0, 1, 2, 0}));
  ASSERT_EQ(rehearsal.size(), 2U);
  EXPECT_EQ(rehearsal[0].size(), 3U);
  EXPECT_EQ(rehearsal[1].size(), 1U);
}

TEST(ThreadTeam, SizeIsAtLeastOne) {
  for (const int size : {-3, 0, 1}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), 1);
    int calls = 0;
    team.run(4, [&](std::int64_t item, int thread) {
      EXPECT_EQ(item, calls);  // alone: in order
      EXPECT_EQ(thread, 0);
      ++calls;
    });
    EXPECT_EQ(calls, 4);
    team.run(-1, [&](std::int64_t, int) { ++calls; });
    EXPECT_EQ(calls, 4);
  }
}

TEST(CacheSizes, AreThoseOfSomeProcessor) {
  const CacheSizes sizes = cache_sizes();
  EXPECT_GE(sizes.l1_bytes, 8 << 10);
  EXPECT_LE(sizes.l1_bytes, 1 << 20);
  EXPECT_GE(sizes.l2_bytes, 64 << 10);
  EXPECT_LE(sizes.l2_bytes, 256 << 20);
  EXPECT_LT(sizes.l1_bytes, sizes.l2_bytes);
  EXPECT_EQ(sizes.l1_bytes % 64, 0);
  EXPECT_EQ(sizes.l2_bytes % 64, 0);
}

}  // namespace
}  // namespace hydrascope::kernels::device
