// The processors, memory and threads that the system gives this process.
#pragma once

#include "kernels/limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace hydrascope::kernels::device {

/// The number of processors for this process, and the limits that set it.
struct Processors {
  int machine = 1;                ///< processors of the machine
  int allowed = 1;                ///< processors in the process's affinity
  std::optional<double> quota{};  ///< processors' worth of time, by the narrowest of its cgroups
  std::optional<int> cores{};     ///< cores that the allowed processors belong to

  /// The number of threads that run at once: a part of a processor counts as one.
  [[nodiscard]] int usable() const noexcept { return limited(allowed); }
  /// The same for threads that keep a core's vector units busy: two on one core gain nothing, and share
  /// the cache that each plans for alone.
  [[nodiscard]] int usable_cores() const noexcept { return limited(cores.value_or(allowed)); }
  /// "8 processors, 4 by the affinity, 1.5 by the cgroup's quota".
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] int limited(int count) const noexcept {
    return !quota || *quota >= count ? count : std::max(1, static_cast<int>(std::ceil(*quota)));
  }
};

/// `root` stands for / in the names of the files that are read, for tests.
Processors processors(const std::filesystem::path& root = "/");

/// Bytes that this process's cgroups let it have at most, and the bytes they hold now without pages
/// that only repeat files.
struct MemoryLimit {
  std::int64_t bytes = 0;
  std::int64_t used = 0;
};
/// The limit of the cgroup that leaves the least; nothing if none has a limit.
std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root = "/");
/// Bytes that this process can have without swapping, by the system and its cgroups; nothing if
/// both are silent.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");
/// Bytes of the caches of the third level that the allowed processors share, each counted once; nothing if
/// the system does not say.
std::optional<std::int64_t> shared_caches(const std::filesystem::path& root = "/");
/// Bytes that the machine has; nothing if the system does not say.
std::optional<std::int64_t> total_memory(const std::filesystem::path& root = "/");

/// Adds `count` threads, each of which calls run(i) with its place in `threads`. If the system
/// gives fewer, the given ones do the work; throws Error(out_of_memory) if it gives none.
template <class Run>
void start_threads(std::vector<std::thread>& threads, int count, Run run) {
  const std::size_t before = threads.size();
  threads.reserve(before + static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([run, place = static_cast<int>(threads.size())] { run(place); });
  } catch (const std::system_error&) {
    if (threads.size() == before) throw no_more_threads();
  }
}

}  // namespace hydrascope::kernels::device
