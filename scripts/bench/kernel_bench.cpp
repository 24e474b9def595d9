// The CUDA kernels in bfloat16 at the sizes of ViT-B at 1088x1920, on the current GPU: time, counted bytes and
// FLOPs, and the share of the copy rate that the same run measured. No LibTorch. docs/gpu.md says
// how the numbers are taken.
//   kernel_bench [--filter REGEX] [--launches N] [--list]
//   kernel_bench --replays N [--filter REGEX]     instead: N calls of each that must agree bit by bit
// Rows are lines of JSON.
// Exit codes: 0; 1 a kernel failed, differed or left something that is not finite; 2 wrong usage; 77 no GPU.
#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "scripts/bench/kernel_bench/measure.h"

#include <cuda_runtime_api.h>
#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace hydrascope::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoGpu = 77;  // what test drivers take for "skipped"
constexpr int kFewestLaunches = static_cast<int>(sized(30, 2));

using Json = nlohmann::ordered_json;

double megahertz(cudaDeviceAttr which, int device) {
  int kilohertz = 0;
  kernels::device::check_cuda(cudaDeviceGetAttribute(&kilohertz, which, device), "a clock's rate");
  return kilohertz / 1e3;
}

Json current_device() {
  int index = 0;
  kernels::device::check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  cudaDeviceProp properties{};
  kernels::device::check_cuda(cudaGetDeviceProperties(&properties, index), "device properties");
  const kernels::device::GpuInfo info = kernels::device::gpu_info();
  return {{"gpu", properties.name},
          {"compute_capability",
           std::to_string(properties.major) + "." + std::to_string(properties.minor)},
          {"multiprocessors", properties.multiProcessorCount},
          {"clock_mhz", megahertz(cudaDevAttrClockRate, index)},
          {"memory_clock_mhz", megahertz(cudaDevAttrMemoryClockRate, index)},
          {"l2_bytes", properties.l2CacheSize},
          {"memory_bytes", static_cast<std::int64_t>(properties.totalGlobalMem)},
          {"driver", info.driver},
          {"runtime", info.runtime}};
}

/// Writes rows as they come, a JSON object a line; shares are of the copy that was written first.
class RowWriter {
 public:
  RowWriter() { put({{"header", current_device()}}); }

  /// `finite`: whether the output is.
  void write(const Case& each, const Times& times, bool finite) {
    const double gb_per_s = each.bytes / times.median / 1e3;
    if (copy_gb_per_s_ == 0) copy_gb_per_s_ = gb_per_s;
    write(each, {{"cache", "cold"},
                 {"us_median", times.median},
                 {"us_p10", times.p10},
                 {"us_p90", times.p90},
                 {"bytes", each.bytes},
                 {"flops", each.flops},
                 {"gb_per_s", gb_per_s},
                 {"tflop_per_s", each.flops / times.median / 1e6},
                 {"copy_gb_per_s", copy_gb_per_s_},
                 {"share_of_copy", gb_per_s / copy_gb_per_s_},
                 {"finite", finite}});
  }
  void write(const Case& each, const Json& rest) {
    Json row = {{"kernel", each.kernel}, {"shape", each.shape}, {"type", each.type}};
    row.update(rest);
    put(row);
  }

 private:
  static void put(const Json& row) { std::cout << row.dump() << std::endl; }

  double copy_gb_per_s_ = 0;
};

std::string name_of(const Case& each) { return each.kernel + ", " + each.shape; }

void write_copy(Stopwatch& stopwatch, const std::string& when, RowWriter& writer) {
  const Case copy{"copy", "1 GiB, " + when, "bytes", Stopwatch::copy_bytes(), 0, {}};
  writer.write(copy, stopwatch.copy(), /*finite=*/true);
}

/// Whether the output is finite.
bool measure(const Case& each, Stopwatch& stopwatch, RowWriter& writer) {
  const Work work = each.prepare();
  const Times times = stopwatch.cold(work);
  const bool finite = work.finite();
  writer.write(each, times, finite);
  return finite;
}

/// Nothing of calls whose output is not known. Whether all were equal.
bool replay(const Case& each, int count, Stopwatch& stopwatch, RowWriter& writer) {
  const Work work = each.prepare();
  if (work.written.empty()) return true;
  const std::uint64_t different = stopwatch.replay(work, count);
  // Words of 16 bytes, in all of the calls.
  writer.write(each, {{"replays", count}, {"different_words", different}});
  return different == 0;
}

/// Whether `body` says so; a failure is a row of its own.
bool with_row_of_failure(const Case& each, RowWriter& writer, const std::function<bool()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    writer.write(each, {{"error", error.about() + ": " + error.what()}});
    return false;
  }
}

int run(int argc, char** argv) {
  cxxopts::Options options("kernel_bench", "CUDA kernels beside the copy rate of the same run");
  options.add_options()("filter", "kernels and shapes that match",
                        cxxopts::value<std::string>()->default_value(""))(
      "launches", "measured of each kernel", cxxopts::value<int>()->default_value("50"))(
      "replays", "calls of each that are compared, instead of measuring",
      cxxopts::value<int>()->default_value("0"))("list", "print their names and stop")(
      "help", "print this and stop");
  const auto given = options.parse(argc, argv);
  if (given.count("help") > 0) {
    std::cout << options.help();
    return 0;
  }
  const int launches = given["launches"].as<int>();
  const int replays = given["replays"].as<int>();
  if (launches < kFewestLaunches || replays < 0 || !given.unmatched().empty())
    throw std::invalid_argument("--launches is at least " + std::to_string(kFewestLaunches) +
                                ", --replays at least 0");
  const std::regex filter(given["filter"].as<std::string>());
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& each) { return !std::regex_search(name_of(each), filter); });
  if (given.count("list") > 0) {
    for (const Case& each : cases) std::cout << name_of(each) << '\n';
    return 0;
  }
  if (const std::string why = kernels::device::gpu_info().why_none; !why.empty()) {
    std::cerr << "no GPU: " << why << '\n';
    return kExitNoGpu;
  }
  Stopwatch stopwatch(launches);
  RowWriter writer;
  if (replays == 0) write_copy(stopwatch, "at the start", writer);
  bool good = true;
  for (const Case& each : cases) {
    const bool well = with_row_of_failure(each, writer, [&] {
      return replays > 0 ? replay(each, replays, stopwatch, writer)
                         : measure(each, stopwatch, writer);
    });
    good = well && good;
  }
  if (replays == 0) write_copy(stopwatch, "at the end", writer);
  return good ? 0 : kExitFailed;
}

}  // namespace
}  // namespace hydrascope::bench

int main(int argc, char** argv) {
  try {
    return hydrascope::bench::run(argc, argv);
  } catch (const hydrascope::Error& error) {
    std::cerr << "error: " << error.about() << ": " << error.what() << '\n';
    return hydrascope::bench::kExitFailed;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return hydrascope::bench::kExitUsage;
  }
}
