#include "kernels/device/processors.h"

#include "kernels/number_text.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sched.h>
#include <set>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace hydrascope::kernels::device {

namespace fs = std::filesystem;

namespace {

/// The processors in the affinity; number 0 alone if the system does not say. The set has to hold all processors
/// that the system was built for.
std::vector<int> allowed_processors() {
  constexpr int kMost = 1 << 20;
  std::vector<int> found;
  for (int room = CPU_SETSIZE; found.empty() && room <= kMost; room *= 2) {
    cpu_set_t* const set = CPU_ALLOC(room);
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(room);
    if (::sched_getaffinity(0, size, set) == 0) {
      for (int number = 0; number < room; ++number)
        if (CPU_ISSET_S(number, size, set)) found.push_back(number);
    }
    CPU_FREE(set);
  }
  if (found.empty()) found.push_back(0);
  return found;
}

/// Cores of those processors: processors of one core have the same list of siblings. A processor without a
/// list counts as a core.
int cores_of(const std::vector<int>& processors, const fs::path& root) {
  std::set<std::string> cores;
  for (const int number : processors) {
    const std::string name = "cpu" + std::to_string(number);
    std::ifstream file(root / "sys/devices/system/cpu" / name / "topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings) || siblings.empty()) siblings = name;
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

/// A path below `root`, whatever `absolute` begins with.
fs::path below(const fs::path& root, const fs::path& absolute) {
  return root / absolute.relative_path();
}

/// mountinfo writes blanks and other special characters in octal, as \040.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() &&
                           text.substr(i + 1, 3).find_first_not_of("01234567") == text.npos;
    if (!is_escape) {
      result += text[i];
      continue;
    }
    result +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return result;
}

/// Whether a list "cpu,cpuacct" has `word`.
bool lists(std::string_view list, std::string_view word) {
  while (true) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == list.npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// A place where a hierarchy of cgroups is mounted.
struct Hierarchy {
  fs::path point;
  fs::path root;  ///< the group that the mount shows as its root
  bool is_unified = false;
};

/// Hierarchies of version 2, and of version 1 with `controller`.
std::vector<Hierarchy> hierarchies(const fs::path& root, std::string_view controller) {
  std::vector<Hierarchy> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream first(line.substr(0, dash));
    std::istringstream second(line.substr(dash + 3));
    std::string id, parent, device, mounted, point, type, source, options;
    first >> id >> parent >> device >> mounted >> point;
    second >> type >> source >> options;
    const bool is_unified = type == "cgroup2";
    if (is_unified || (type == "cgroup" && lists(options, controller)))
      found.push_back({unescaped(point), unescaped(mounted), is_unified});
  }
  return found;
}

/// This process's group in a hierarchy, from /proc/self/cgroup; nothing if it is in none.
std::optional<fs::path> group_in(const fs::path& root, const Hierarchy& hierarchy,
                                 std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (hierarchy.is_unified ? names.empty() : lists(names, controller))
      return fs::path(line.substr(second + 1));
  }
  return std::nullopt;
}

/// Calls visit(folder, is_unified) for this process's groups with `controller` and all above them
/// that can be seen. A namespace may hide the own group's place; the mounted group is then the own.
template <class Visit>
void for_each_group(const fs::path& root, std::string_view controller, Visit visit) {
  for (const Hierarchy& hierarchy : hierarchies(root, controller)) {
    const fs::path point = below(root, hierarchy.point);
    fs::path inside;
    if (const auto group = group_in(root, hierarchy, controller)) {
      const fs::path relative = group->lexically_relative(hierarchy.root);
      if (!relative.empty() && *relative.begin() != "..") inside = relative;
    }
    for (; !inside.empty() && inside != "."; inside = inside.parent_path())
      visit(point / inside, hierarchy.is_unified);
    visit(point, hierarchy.is_unified);
  }
}

/// The first `count` words of a file that are numbers, up to one that is none ("max").
std::vector<double> numbers_of(const fs::path& file, int count) {
  std::vector<double> numbers;
  std::ifstream stream(file);
  for (std::string word; count > 0 && stream >> word; --count) {
    const auto number = parse_number<double>(word);
    if (!number || !std::isfinite(*number)) break;
    numbers.push_back(*number);
  }
  return numbers;
}

/// A count of bytes; nothing if it is as large as the counts that stand for no limit.
std::optional<std::int64_t> bytes_of(const fs::path& file) {
  constexpr double kNoLimit = 4e18;  // version 1 has the largest number of whole pages
  const std::vector<double> numbers = numbers_of(file, 1);
  if (numbers.empty() || numbers[0] < 0 || numbers[0] > kNoLimit) return std::nullopt;
  return static_cast<std::int64_t>(numbers[0]);
}

/// The number behind the word `key` of a file of words and numbers.
std::optional<std::int64_t> entry_of(const fs::path& file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> memory_entry(const fs::path& root, std::string_view key) {
  const auto kilobytes = entry_of(root / "proc/meminfo", key);
  return kilobytes ? std::optional(*kilobytes << 10) : std::nullopt;
}

}  // namespace

std::string Processors::describe() const {
  std::string text = std::to_string(machine) + (machine == 1 ? " processor" : " processors");
  if (allowed < machine) text += ", " + std::to_string(allowed) + " by the affinity";
  if (cores && *cores < allowed)
    text += ", of " + std::to_string(*cores) + (*cores == 1 ? " core" : " cores");
  if (quota && *quota < allowed)
    text += ", " + shortest_number(std::round(*quota * 100) / 100) + " by the cgroup's quota";
  return text;
}

Processors processors(const fs::path& root) {
  Processors found;
  const std::vector<int> allowed = allowed_processors();
  found.allowed = static_cast<int>(allowed.size());
  found.cores = cores_of(allowed, root);
  found.machine = std::max(found.allowed, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  for_each_group(root, "cpu", [&](const fs::path& group, bool is_unified) {
    // Microseconds of all processors together, and in how many of the clock.
    std::vector<double> times = numbers_of(group / "cpu.max", 2);
    if (!is_unified) {
      times = numbers_of(group / "cpu.cfs_quota_us", 1);
      const std::vector<double> period = numbers_of(group / "cpu.cfs_period_us", 1);
      times.insert(times.end(), period.begin(), period.end());
    }
    if (times.size() < 2 || times[0] <= 0 || times[1] <= 0) return;  // -1 is none
    const double quota = times[0] / times[1];
    found.quota = std::min(found.quota.value_or(quota), quota);
  });
  return found;
}

std::optional<MemoryLimit> memory_limit(const fs::path& root) {
  std::optional<MemoryLimit> narrowest;
  for_each_group(root, "memory", [&](const fs::path& group, bool is_unified) {
    const auto limit = bytes_of(group / (is_unified ? "memory.max" : "memory.limit_in_bytes"));
    const auto used = bytes_of(group / (is_unified ? "memory.current" : "memory.usage_in_bytes"));
    if (!limit) return;
    const auto reclaimable =
        entry_of(group / "memory.stat", is_unified ? "inactive_file" : "total_inactive_file");
    const MemoryLimit found{*limit,
                            std::max<std::int64_t>(0, used.value_or(0) - reclaimable.value_or(0))};
    if (!narrowest || found.bytes - found.used < narrowest->bytes - narrowest->used)
      narrowest = found;
  });
  return narrowest;
}

std::optional<std::int64_t> shared_caches(const fs::path& root) {
  std::map<std::string, std::int64_t> bytes;  // by the processors that share a cache
  for (const int number : allowed_processors()) {
    const fs::path cache =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(number)) / "cache/index3";
    std::ifstream list(cache / "shared_cpu_list");
    std::ifstream size(cache / "size");
    std::string sharers;
    std::int64_t kilobytes = 0;
    char unit = 0;
    if (std::getline(list, sharers) && size >> kilobytes >> unit && unit == 'K' && kilobytes > 0)
      bytes[sharers] = kilobytes << 10;
  }
  if (bytes.empty()) return std::nullopt;
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& cache) { return sum + cache.second; });
}

std::optional<std::int64_t> total_memory(const fs::path& root) {
  return memory_entry(root, "MemTotal:");
}

std::optional<std::int64_t> available_memory(const fs::path& root) {
  std::optional<std::int64_t> available = memory_entry(root, "MemAvailable:");
  if (const auto limit = memory_limit(root)) {
    const std::int64_t left = std::max<std::int64_t>(0, limit->bytes - limit->used);
    available = std::min(available.value_or(left), left);
  }
  return available;
}

}  // namespace hydrascope::kernels::device
