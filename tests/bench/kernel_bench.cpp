// Every CUDA kernel at the sizes of ViT-B at 1088x1920, on the current GPU: time, counted bytes and
// FLOPs, and the share of the copy rate that the same run measured. No LibTorch. docs/gpu.md says
// how the numbers are taken.
//   kernel_bench [--format jsonl|md] [--filter REGEX] [--launches N] [--list]
// Exit codes: 0; 1 a kernel failed or left something that is not finite; 2 wrong usage; 77 no GPU.
#include "kernels/device/gpu_info.h"
#include "kernels/error.h"
#include "tests/bench/kernel_bench/row.h"
#include "tests/bench/kernel_bench/stopwatch.h"
#include "tests/bench/kernel_bench/work.h"

#include <cxxopts.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace hydrascope::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoGpu = 77;  // what test drivers take for "skipped"
constexpr int kFewestLaunches = 30;

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto family : {hydra_cases, linear_attention_cases, row_cases, picture_cases, product_cases})
    std::ranges::move(family(), std::back_inserter(all));
  return all;
}

std::string name_of(const Case& each) { return each.kernel + ", " + each.shape; }

void write_copy(Stopwatch& stopwatch, const std::string& when, RowWriter& writer) {
  const Case copy{"copy", "1 GiB, " + when, "bytes", Stopwatch::copy_bytes(), 0, {}};
  writer.write(copy, "cold", stopwatch.copy(), /*finite=*/true);
}

/// Whether all went well.
bool write_case(const Case& each, Stopwatch& stopwatch, RowWriter& writer) {
  try {
    const Work work = each.prepare(stopwatch.stream());
    bool finite = true;
    for (const bool cold : {true, false}) {
      const Times times = cold ? stopwatch.cold(work) : stopwatch.warm(work);
      finite = work.finite();
      writer.write(each, cold ? "cold" : "warm", times, finite);
    }
    return finite;
  } catch (const Error& error) {
    writer.write_failure(each, error.subject() + ": " + error.what());
    return false;
  }
}

int run(int argc, char** argv) {
  cxxopts::Options options("kernel_bench", "CUDA kernels beside the copy rate of the same run");
  options.add_options()("format", "jsonl or md",
                        cxxopts::value<std::string>()->default_value("jsonl"))(
      "filter", "kernels and shapes that match", cxxopts::value<std::string>()->default_value(""))(
      "launches", "measured of each kernel", cxxopts::value<int>()->default_value("50"))(
      "list", "print their names and stop")("help", "print this and stop");
  const auto given = options.parse(argc, argv);
  if (given.count("help") > 0) {
    std::cout << options.help();
    return 0;
  }
  const std::string format = given["format"].as<std::string>();
  const int launches = given["launches"].as<int>();
  if ((format != "jsonl" && format != "md") || launches < kFewestLaunches ||
      !given.unmatched().empty())
    throw std::invalid_argument("--format is jsonl or md, --launches at least 30");
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
  RowWriter writer(format == "md" ? Format::md : Format::jsonl, std::cout);
  write_copy(stopwatch, "at the start", writer);
  bool good = true;
  for (const Case& each : cases) good = write_case(each, stopwatch, writer) && good;
  write_copy(stopwatch, "at the end", writer);
  return good ? 0 : kExitFailed;
}

}  // namespace
}  // namespace hydrascope::bench

int main(int argc, char** argv) {
  try {
    return hydrascope::bench::run(argc, argv);
  } catch (const hydrascope::Error& error) {
    std::cerr << "error: " << error.subject() << ": " << error.what() << '\n';
    return hydrascope::bench::kExitFailed;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return hydrascope::bench::kExitUsage;
  }
}
