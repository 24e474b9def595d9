// How many processors and how much memory cgroups leave, by made-up /proc and /sys.
#include "kernels/device/processors.h"

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace hydrascope::kernels::device {
namespace processors_test {

using hydrascope::testing::TemporaryFolder;

constexpr const char* kUnified =
    "24 1 0:22 / / rw shared:1 - ext4 /dev/sda rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kVersion1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

class ProcessorsTest : public ::testing::Test {
 protected:
  void system(const std::string& mounts, const std::string& groups) const {
    root_.write("proc/self/mountinfo", mounts);
    root_.write("proc/self/cgroup", groups);
  }
  [[nodiscard]] std::optional<double> quota() const { return processors(root_.path()).quota; }

  TemporaryFolder root_;
};

TEST_F(ProcessorsTest, WithoutCgroupsTheAffinityCounts) {
  const Processors found = processors(root_.path());
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(found.allowed, CPU_COUNT(&set));
  EXPECT_EQ(found.usable(), found.allowed);
  EXPECT_FALSE(found.quota);
  EXPECT_FALSE(memory_limit(root_.path()));
  EXPECT_FALSE(available_memory(root_.path()));
  EXPECT_FALSE(total_memory(root_.path()));
}

TEST_F(ProcessorsTest, APartOfAProcessorCountsAsOne) {
  const auto usable = [](double quota) { return Processors{8, 4, quota}.usable(); };
  EXPECT_EQ(usable(0.01), 1);
  EXPECT_EQ(usable(1), 1);
  EXPECT_EQ(usable(1.001), 2);
  EXPECT_EQ(usable(3.5), 4);
  EXPECT_EQ(usable(64), 4);
  EXPECT_EQ((Processors{8, 4, {}}.usable()), 4);
  EXPECT_EQ((Processors{2, 2, 1.0}.describe()), "2 processors, 1 by the cgroup's quota");
  EXPECT_EQ((Processors{8, 4, 1.5}.describe()),
            "8 processors, 4 by the affinity, 1.5 by the cgroup's quota");
  EXPECT_EQ((Processors{1, 1, 16.0}.describe()), "1 processor");
}

TEST_F(ProcessorsTest, ProcessorsOfOneCoreCountOnceForTheModel) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (!CPU_ISSET(number, &set)) continue;
    const std::string core = std::to_string(number / 2);  // any name that two of them share
    root_.write(
        "sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology/thread_siblings_list",
        core);
  }
  const Processors found = processors(root_.path());
  EXPECT_LE(found.cores.value(), found.allowed);
  EXPECT_GE(2 * found.cores.value(), found.allowed);
  EXPECT_EQ(found.usable(), found.allowed);
  EXPECT_EQ(found.usable_cores(), found.cores);
  EXPECT_EQ((Processors{8, 8, {}, 4}.usable_cores()), 4);
  EXPECT_EQ((Processors{8, 8, 2.5, 4}.usable_cores()), 3);
  EXPECT_EQ((Processors{8, 8, {}, 4}.describe()), "8 processors, of 4 cores");
  EXPECT_EQ((Processors{8, 4, {}, 4}.describe()), "8 processors, 4 by the affinity");
}

TEST_F(ProcessorsTest, ACacheThatProcessorsShareCountsOnce) {
  EXPECT_FALSE(shared_caches(root_.path()));
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  const auto write = [&](int numbers_of_a_cache, const std::string& size) {
    for (int number = 0; number < CPU_SETSIZE; ++number) {
      if (!CPU_ISSET(number, &set)) continue;
      const std::string cache =
          "sys/devices/system/cpu/cpu" + std::to_string(number) + "/cache/index3/";
      root_.write(cache + "shared_cpu_list", std::to_string(number / numbers_of_a_cache) + "\n");
      root_.write(cache + "size", size + "\n");
    }
  };
  write(CPU_SETSIZE, "32768K");
  EXPECT_EQ(shared_caches(root_.path()), 32768 << 10);
  write(1, "512K");
  EXPECT_EQ(shared_caches(root_.path()), CPU_COUNT(&set) * (std::int64_t{512} << 10));
  write(1, "many");
  EXPECT_FALSE(shared_caches(root_.path()));
}

TEST_F(ProcessorsTest, TheNarrowestGroupOfTheTreeCounts) {
  system(kUnified, "0::/a/b/c\n");
  root_.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  root_.write("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  root_.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 1.5);
  root_.write("sys/fs/cgroup/a/b/c/cpu.max", "5000 10000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 0.5);
  root_.write("sys/fs/cgroup/cpu.max", "20000 100000\n");  // a container's own root
  EXPECT_DOUBLE_EQ(quota().value(), 0.2);
}

TEST_F(ProcessorsTest, GroupsOfVersion1) {
  system(kVersion1, "4:memory:/\n2:cpu,cpuacct:/job\n1:name=systemd:/x\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota());
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 2.5);
}

TEST_F(ProcessorsTest, ANamespaceMayHideWhereTheGroupLies) {
  const std::string own =
      "40 31 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
      "41 31 0:27 / /a\\040b rw - tmpfs tmpfs rw\n";
  root_.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  root_.write("sys/fs/cgroup/inner/cpu.max", "50000 100000\n");
  for (const char* group : {"0::/\n", "0::/../..\n", "0::/docker/abc\n", "0::/other/place\n", ""}) {
    system(own, group);
    EXPECT_DOUBLE_EQ(quota().value(), 1.0) << group;
  }
  system(own, "0::/docker/abc/inner\n");
  EXPECT_DOUBLE_EQ(quota().value(), 0.5);
}

TEST_F(ProcessorsTest, PlacesMayHaveOddNames) {
  system("30 24 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n", "0::/a:b c\n");
  root_.write("my groups/a:b c/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 3.0);
}

TEST_F(ProcessorsTest, WhatIsNoNumberIsNoQuota) {
  system(kUnified, "0::/\n");
  for (const char* text : {"", "max", "max 100000", "garbage", "-1 100000", "100000", "100000 0",
                           "0 100000", "100000 x", "nan nan", "100000 inf"}) {
    root_.write("sys/fs/cgroup/cpu.max", text);
    EXPECT_FALSE(quota()) << text;
  }
  system("no mounts at all\n - \n1 2 3 - cgroup2\n", "0:\n:\n");
  EXPECT_FALSE(quota());
}

TEST_F(ProcessorsTest, MemoryIsWhatSystemAndGroupsLeave) {
  root_.write("proc/meminfo", "MemTotal:  4096 kB\nMemFree: 5 kB\nMemAvailable:   2048 kB\n");
  EXPECT_EQ(available_memory(root_.path()), 2048 << 10);
  EXPECT_EQ(total_memory(root_.path()), 4096 << 10);
  system(kUnified, "0::/a\n");
  root_.write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(available_memory(root_.path()), 2048 << 10);
  root_.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root_.write("sys/fs/cgroup/a/memory.current", "900000\n");
  root_.write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 300000\n");
  EXPECT_EQ(available_memory(root_.path()), 400000);
  EXPECT_EQ(memory_limit(root_.path())->bytes, 1000000);
  root_.write("sys/fs/cgroup/a/memory.current", "5000000\n");
  EXPECT_EQ(available_memory(root_.path()), 0);
}

TEST_F(ProcessorsTest, MemoryOfVersion1) {
  system(kVersion1, "4:memory:/job\n");
  root_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(memory_limit(root_.path()));
  root_.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
  root_.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "700000\n");
  root_.write("sys/fs/cgroup/memory/job/memory.stat",
              "inactive_file 1\ntotal_inactive_file 200000\n");
  EXPECT_EQ(available_memory(root_.path()), 500000);
}

TEST_F(ProcessorsTest, ThreadsKnowTheirPlaces) {
  std::vector<std::thread> threads;
  std::vector<int> seen(3, -1);
  start_threads(threads, 1, [&](int place) { seen[0] = place; });
  start_threads(threads, 2, [&](int place) { seen[static_cast<std::size_t>(place)] = place; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, (std::vector{0, 1, 2}));
}

}  // namespace processors_test
}  // namespace hydrascope::kernels::device
