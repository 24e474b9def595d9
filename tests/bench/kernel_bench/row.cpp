#include "tests/bench/kernel_bench/row.h"

#include "kernels/device/gpu_info.h"
#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <initializer_list>
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

std::string text(const char* format, double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

void write_cells(std::ostream& out, std::initializer_list<std::string> cells) {
  for (const std::string& cell : cells) out << "| " << cell << (cell.empty() ? "" : " ");
  out << '|' << std::endl;
}

}  // namespace

RowWriter::RowWriter(Format format, std::ostream& out) : format_(format), out_(out) {
  const Json device = current_device();
  if (format_ == Format::jsonl) {
    out_ << Json{{"header", device}}.dump() << std::endl;
    return;
  }
  const auto word = [&](const char* key) { return device[key].get<std::string>(); };
  out_ << word("gpu") << ", compute capability " << word("compute_capability") << ", "
       << device["multiprocessors"] << " multiprocessors, L2 "
       << device["l2_bytes"].get<std::int64_t>() / (1 << 20) << " MiB, CUDA " << word("runtime")
       << ", driver " << word("driver") << "\n\n";
  write_cells(out_, {"kernel", "shape", "type", "L2", "us (p10 to p90)", "GB/s", "of the copy",
                     "TFLOP/s", "output"});
  out_ << "|---|---|---|---|---:|---:|---:|---:|---|" << std::endl;
}

void RowWriter::write_failure(const Case& each, const std::string& why) {
  if (format_ == Format::md) {
    write_cells(out_, {each.kernel, each.shape, each.type, "", "failed", "", "", "", why});
    return;
  }
  const Json row{
      {"kernel", each.kernel}, {"shape", each.shape}, {"type", each.type}, {"error", why}};
  out_ << row.dump() << std::endl;
}

void RowWriter::write(const Case& each, const std::string& cache, const Times& times, bool finite) {
  const double gb_per_s = each.bytes / times.median / 1e3;
  const double tflop_per_s = each.flops / times.median / 1e6;
  if (copy_gb_per_s_ == 0) copy_gb_per_s_ = gb_per_s;
  const double share = gb_per_s / copy_gb_per_s_;
  if (format_ == Format::md) {
    write_cells(out_, {each.kernel, each.shape, each.type, cache,
                       text("%.1f", times.median) + text(" (%.1f", times.p10) +
                           text(" to %.1f)", times.p90),
                       text("%.0f", gb_per_s), text("%.1f %%", 100 * share),
                       text("%.2f", tflop_per_s), finite ? "finite" : "NOT FINITE"});
    return;
  }
  const Json row{{"kernel", each.kernel},      {"shape", each.shape},
                 {"type", each.type},          {"cache", cache},
                 {"launches", times.launches}, {"runs_per_launch", times.runs_per_launch},
                 {"us_median", times.median},  {"us_p10", times.p10},
                 {"us_p90", times.p90},        {"bytes", each.bytes},
                 {"flops", each.flops},        {"gb_per_s", gb_per_s},
                 {"tflop_per_s", tflop_per_s}, {"copy_gb_per_s", copy_gb_per_s_},
                 {"share_of_copy", share},     {"finite", finite}};
  out_ << row.dump() << std::endl;
}

}  // namespace hydrascope::bench
