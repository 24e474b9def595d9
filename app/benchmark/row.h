// One measured combination of the `benchmark` command and its forms.
#pragma once

#include "app/results/json.h"
#include "app/results/report.h"
#include "kernels/device/cpu_ceiling.h"

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// Names and order are those of the command line's contract. Every field is visited once, in
/// `visit`; all formats and the reader follow from it.
struct BenchmarkRow {
  std::string model;
  std::string attention;
  std::array<std::int64_t, 2> img_size{};  ///< height, width fed to the model
  std::int64_t tokens = 0;
  std::int64_t batch = 1;
  std::string precision;
  std::string device;
  std::string kernels;
  double images_per_second = 0;  ///< batch / median time
  double ms_p50 = 0;             ///< of one forward pass, or of one image end to end
  double ms_p90 = 0;
  double ms_p99 = 0;
  double ms_mean = 0;
  double ms_stddev = 0;
  std::int64_t iterations = 0;
  std::int64_t warmup = 0;
  std::int64_t peak_memory_bytes = 0;  ///< resident size (CPU) or allocated (CUDA), at most
  double gflops_per_image = 0;
  double achieved_tflops = 0;
  double pct_of_peak = 0;           ///< of the FLOPs that were computed
  double peak_tflops_measured = 0;  ///< the processor's ceiling, or a GPU's large product
  std::string stage;                ///< "model", "end_to_end" or "train_step"
  // Beyond the contract's fields:
  std::string attention_options;  ///< "hydra.scale=linear,..."
  std::string approximations;     ///< "calibration=bundled", of int8
  double top1 = 0;  ///< percent, of the bundled model's card, at its size alone; 0: unknown
  /// The least time that reading weights and pictures takes at the ceiling's memory rate, in percent of
  /// ms_p50, after as much as the caches can keep; 0 where it is unknown or all stays in the caches.
  double pct_of_memory = 0;
  std::string error;  ///< "out_of_memory": nothing was measured, all figures are 0; else empty

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("model", self.model);
    visitor("attention", self.attention);
    visitor("img_size", self.img_size);
    visitor("tokens", self.tokens);
    visitor("batch", self.batch);
    visitor("precision", self.precision);
    visitor("device", self.device);
    visitor("kernels", self.kernels);
    visitor("images_per_second", self.images_per_second);
    visitor("ms_p50", self.ms_p50);
    visitor("ms_p90", self.ms_p90);
    visitor("ms_p99", self.ms_p99);
    visitor("ms_mean", self.ms_mean);
    visitor("ms_stddev", self.ms_stddev);
    visitor("iterations", self.iterations);
    visitor("warmup", self.warmup);
    visitor("peak_memory_bytes", self.peak_memory_bytes);
    visitor("gflops_per_image", self.gflops_per_image);
    visitor("achieved_tflops", self.achieved_tflops);
    visitor("pct_of_peak", self.pct_of_peak);
    visitor("peak_tflops_measured", self.peak_tflops_measured);
    visitor("stage", self.stage);
    visitor("attention_options", self.attention_options);
    visitor("approximations", self.approximations);
    visitor("error", self.error);
    visitor("top1", self.top1);
    visitor("pct_of_memory", self.pct_of_memory);
  }

  /// Two rows are the same experiment where all but the measured figures is the same. A row with an error
  /// is another one than the row that was measured.
  [[nodiscard]] std::string key() const;
};

/// "1088x1920": height x width.
std::string size_text(const BenchmarkRow& row);

/// Summarises at least one sample. Percentiles interpolate linearly between order statistics.
struct TimingSummary {
  double p50 = 0, p90 = 0, p99 = 0;
  double mean = 0;
  double stddev = 0;  ///< of a sample (n - 1); 0 for a single one
};
TimingSummary summarise(std::span<const double> samples);

/// Have the timings of a warm-up settled? The median of the last `window` differs by less than 2 %
/// from that of the `window` before.
bool settled(std::span<const double> samples, std::size_t window = 3);

/// The program and the machine: build, commit, compiler, LibTorch, CUDA, driver, processor, threads are
/// strings; `ceiling` is an object.
using BenchmarkHeader = std::map<std::string, OrderedJson>;

/// threads, float32_gflop_per_s, bfloat16_gflop_per_s, int8_gop_per_s, l2_gb_per_s, memory_gb_per_s (1e9
/// operations or bytes), and `disturbed`: the names of the rates that may be too low.
OrderedJson to_json(const kernels::device::CpuCeiling& ceiling);

struct BenchmarkResult {
  BenchmarkHeader header;
  std::vector<BenchmarkRow> rows;
};

/// Rows are written as soon as they are measured. The text is a table of at most 100 columns for each
/// model and device; what is not as usual (a stage, kernels, approximations) stands beside the attention.
class BenchmarkWriter {
 public:
  BenchmarkWriter(Format format, std::ostream& out, const BenchmarkHeader& header);
  void write(const BenchmarkRow& row);
  void finish() { records_.finish(); }

 private:
  RecordStream records_;
  std::string group_;  ///< of the text table at hand: its model and device
};

/// Reads the rows that `json` or `jsonl` wrote. Throws Error(failed) naming the file and what is wrong.
std::vector<BenchmarkRow> read_rows(const std::string& file);
/// Rows that got slower than `baseline` by more than `percent` of its images/s, and rows that it lacks:
/// a check that compares nothing must not pass.
std::vector<std::string> slower_rows(const std::vector<BenchmarkRow>& baseline,
                                     const std::vector<BenchmarkRow>& now, double percent);

/// Images/s and memory over the number of tokens, a line for each mechanism, and the rows. Rows that
/// differ in more than attention and size (batch, precision, device, ...) get lines of their own.
Report report_of(const BenchmarkResult& result);

/// Throws Error(invalid_argument) for a file of `--html` that is neither .svg nor .html, or cannot be
/// written: better before an hour of measuring than after it.
void check_chart_file(const std::string& file);

}  // namespace hydrascope::app
