#include "tests/bench/kernel_bench/row.h"

#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <ostream>

namespace hydrascope::bench {
namespace {

using Json = nlohmann::ordered_json;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  kernels::device::check_cuda(cudaDeviceGetAttribute(&value, which, device), "device attribute");
  return value;
}

std::string text(const char* format, double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

}  // namespace

Device current_device() {
  int index = 0;
  kernels::device::check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  cudaDeviceProp properties{};
  kernels::device::check_cuda(cudaGetDeviceProperties(&properties, index), "device properties");
  const kernels::device::GpuInfo info = kernels::device::gpu_info();
  Device device;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.clock_mhz = attribute(cudaDevAttrClockRate, index) / 1e3;
  device.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, index) / 1e3;
  device.l2_bytes = properties.l2CacheSize;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.driver = info.driver;
  device.runtime = info.runtime;
  return device;
}

RowWriter::RowWriter(Format format, std::ostream& out, const Device& device)
    : format_(format), out_(out) {
  const std::string capability = std::to_string(device.major) + "." + std::to_string(device.minor);
  if (format_ == Format::jsonl) {
    const Json header{{"gpu", device.name},
                      {"compute_capability", capability},
                      {"multiprocessors", device.multiprocessors},
                      {"clock_mhz", device.clock_mhz},
                      {"memory_clock_mhz", device.memory_clock_mhz},
                      {"l2_bytes", device.l2_bytes},
                      {"memory_bytes", device.memory_bytes},
                      {"driver", device.driver},
                      {"runtime", device.runtime}};
    out_ << Json{{"header", header}}.dump() << std::endl;
    return;
  }
  out_ << device.name << ", compute capability " << capability << ", " << device.multiprocessors
       << " multiprocessors, L2 " << device.l2_bytes / (1 << 20) << " MiB, CUDA " << device.runtime
       << ", driver " << device.driver << "\n\n"
       << "| kernel | shape | type | L2 | us (p10 to p90) | GB/s | of the copy | TFLOP/s | output "
          "|\n"
       << "|---|---|---|---|---:|---:|---:|---:|---|" << std::endl;
}

void RowWriter::write(const Row& row) {
  if (!row.error.empty()) {
    if (format_ == Format::jsonl) {
      out_ << Json{{"kernel", row.kernel},
                   {"shape", row.shape},
                   {"type", row.type},
                   {"error", row.error}}
                  .dump()
           << std::endl;
    } else {
      out_ << "| " << row.kernel << " | " << row.shape << " | " << row.type
           << " | | failed | | | | " << row.error << " |" << std::endl;
    }
    return;
  }
  const Times& times = row.times;
  const double gb_per_s = row.bytes / times.median / 1e3;
  const double tflop_per_s = row.flops / times.median / 1e6;
  if (copy_gb_per_s_ == 0) copy_gb_per_s_ = gb_per_s;
  const double share = gb_per_s / copy_gb_per_s_;
  if (format_ == Format::jsonl) {
    out_ << Json{{"kernel", row.kernel},       {"shape", row.shape},
                 {"type", row.type},           {"cache", row.cache},
                 {"launches", times.launches}, {"runs_per_launch", times.runs_per_launch},
                 {"us_median", times.median},  {"us_p10", times.p10},
                 {"us_p90", times.p90},        {"bytes", row.bytes},
                 {"flops", row.flops},         {"gb_per_s", gb_per_s},
                 {"tflop_per_s", tflop_per_s}, {"copy_gb_per_s", copy_gb_per_s_},
                 {"share_of_copy", share},     {"finite", row.finite}}
                .dump()
         << std::endl;
    return;
  }
  out_ << "| " << row.kernel << " | " << row.shape << " | " << row.type << " | " << row.cache
       << " | " << text("%.1f", times.median) << text(" (%.1f", times.p10)
       << text(" to %.1f)", times.p90) << " | " << text("%.0f", gb_per_s) << " | "
       << text("%.1f %%", 100 * share) << " | " << text("%.2f", tflop_per_s) << " | "
       << (row.finite ? "finite" : "NOT FINITE") << " |" << std::endl;
}

}  // namespace hydrascope::bench
