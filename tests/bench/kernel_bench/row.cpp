#include "tests/bench/kernel_bench/row.h"

#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <ostream>

namespace hydrascope::bench {
namespace {

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

/// The beginning of every row.
Json row_of(const Case& each) {
  return {{"kernel", each.kernel}, {"shape", each.shape}, {"type", each.type}};
}

}  // namespace

RowWriter::RowWriter(std::ostream& out) : out_(out) {
  out_ << Json{{"header", current_device()}}.dump() << std::endl;
}

void RowWriter::write_failure(const Case& each, const std::string& why) {
  Json row = row_of(each);
  row[each.may_refuse ? "refused" : "error"] = why;
  out_ << row.dump() << std::endl;
}

void RowWriter::write_replays(const Case& each, int calls, std::uint64_t different) {
  Json row = row_of(each);
  row.update({{"replays", calls}, {"different_words", different}});
  out_ << row.dump() << std::endl;
}

void RowWriter::write(const Case& each, const std::string& cache, const Times& times, bool finite,
                      const std::string& note) {
  const double gb_per_s = each.bytes / times.median / 1e3;
  if (copy_gb_per_s_ == 0) copy_gb_per_s_ = gb_per_s;
  Json row = row_of(each);
  row.update({{"cache", cache},
              {"launches", times.launches},
              {"runs_per_launch", times.runs_per_launch},
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
  if (!note.empty()) row["note"] = note;
  out_ << row.dump() << std::endl;
}

}  // namespace hydrascope::bench
