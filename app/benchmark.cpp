// hydrascope benchmark: throughput, latency and memory of model x attention x size x batch x
// precision x device x kernels, beside the most that the processor or the GPU was seen to do.
#include "app/benchmark/row.h"
#include "app/benchmark/sweep.h"
#include "app/build_info.h"
#include "app/command.h"
#include "app/model/model_metadata.h"
#include "app/model/running_model.h"
#include "app/options/option_table.h"
#include "app/pictures/inputs.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "kernels/device/cpu_ceiling.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/device/processors.h"
#include "kernels/stopwatch.h"
#include "model/config/network_cost.h"
#include "model/device.h"
#include "model/training/autocast.h"
#include "model/training/losses.h"
#include "model/training/optimizer.h"
#include "model/training/parameter_groups.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace hydrascope::app {
namespace {

/// A step of training: the gradients of a product are two products of its size.
constexpr double kPassesOfAStep = 3;

struct Timings {
  std::vector<double> milliseconds;  ///< one per call
  std::int64_t warmup = 0;           ///< calls before
  std::int64_t peak_memory_bytes = 0;
};

double timed(const std::function<void()>& once) {
  const Clock::time_point begin = Clock::now();
  once();
  return seconds_since(begin) * 1e3;
}

/// VmHWM, the largest resident size since the mark was last cleared.
std::int64_t resident_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kField = "VmHWM:";
    if (line.starts_with(kField)) return std::stoll(line.substr(kField.size())) * 1024;
  }
  return 0;
}

void clear_resident_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;  // proc(5): resets the peak of the resident set to what is resident now
}

/// Calls `once`, which must have finished its work when it returns. Memory is the process's largest
/// resident size during the measured calls on the CPU, the allocator's peak on a GPU.
Timings measure(const std::function<void()>& once, const MeasureOptions& options,
                const c10::Device& device) {
  Timings timings;
  std::vector<double> before;
  const Clock::time_point warm_begin = Clock::now();
  constexpr double kLongestWarmup = 10;
  constexpr std::size_t kMostWarmups = 20;
  while (!stop_requested()) {
    if (options.warmup >= 0) {
      if (static_cast<std::int64_t>(before.size()) >= options.warmup) break;
    } else if (settled(before) || before.size() >= kMostWarmups ||
               (!before.empty() && seconds_since(warm_begin) > kLongestWarmup)) {
      break;
    }
    before.push_back(timed(once));
  }
  timings.warmup = static_cast<std::int64_t>(before.size());
  if (device.is_cuda()) {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  } else {
#ifdef __GLIBC__
    malloc_trim(0);  // what earlier combinations left in the heap is none of this one's
#endif
    clear_resident_peak();
  }
  const Clock::time_point begin = Clock::now();
  constexpr std::size_t kFewest = 5;
  while (!stop_requested()) {
    const std::size_t done = timings.milliseconds.size();
    if (options.iterations > 0 ? static_cast<std::int64_t>(done) >= options.iterations
                               : done >= kFewest && seconds_since(begin) >= options.duration)
      break;
    timings.milliseconds.push_back(timed(once));
  }
  if (device.is_cuda()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    timings.peak_memory_bytes = stats.allocated_bytes[0].peak;
  } else {
    timings.peak_memory_bytes = resident_peak_bytes();
  }
  return timings;
}

/// TFLOP/s of LibTorch's large matrix product (4096 x 768 x 3072, random numbers, best of some) in this
/// precision on a GPU. The processor's ceiling: kernels/device/cpu_ceiling.h.
double gpu_peak_tflops(const c10::Device& device, const model::Precision& precision) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kInner = 768;
  constexpr std::int64_t kColumns = 3072;
  constexpr int kRounds = 8;
  const auto type = at::TensorOptions().device(device).dtype(at::kFloat);
  const at::Tensor a = at::randn({kRows, kInner}, type).to(precision.dtype);
  const at::Tensor b = at::randn({kInner, kColumns}, type).to(precision.dtype);
  at::Tensor c = at::empty({kRows, kColumns}, a.options());
  double best = 1e30;
  // A product takes microseconds: several a round, and the copy of one number waits for them.
  constexpr int kProducts = 100;
  for (int round = 0; round < kRounds; ++round) {
    best = std::min(best, timed([&] {
                      for (int i = 0; i < kProducts; ++i) at::mm_out(c, a, b);
                      c.flatten()[0].item();
                    }));
  }
  return 2.0 * kRows * kInner * kColumns * kProducts / best / 1e9;
}

/// Random images, labels and weights; AdamW; float32 weights, and with bfloat16 products of that
/// type (autocast). Throws Error(invalid_argument) for precisions that train nothing.
Timings measure_train_step(const model::VitConfig& config, const image::Size& size,
                           std::int64_t batch, const c10::Device& device,
                           const model::Precision& precision, const MeasureOptions& options) {
  namespace training = model::training;
  if (precision.int8 || precision.tf32 || precision.dtype == at::kHalf) {
    throw UsageError("training computes in float32 or bfloat16",
                     "`precision` " + std::string(precision.name()));
  }
  const auto autocast =
      precision.dtype == at::kBFloat16 ? training::Autocast::bfloat16 : training::Autocast::off;
  model::VisionTransformer model(config);
  model->to(device);
  model->train();
  training::Optimizer optimizer(training::parameter_groups(*model, {}), {});
  const at::Tensor images = at::randn({batch, config.in_chans, size.height, size.width}).to(device);
  const at::Tensor targets = at::randint(config.num_classes, {batch}, at::kLong).to(device);
  constexpr double kLearningRate = 1e-4;
  constexpr double kSmoothing = 0.1;
  return measure(
      [&] {
        optimizer.zero_grad();
        at::Tensor loss;
        {
          const training::AutocastScope scope(autocast, device.type());
          loss = training::cross_entropy(model->forward(images), targets, kSmoothing);
        }
        loss.backward();
        optimizer.step(kLearningRate);
        if (!std::isfinite(loss.item<float>()))
          throw Error(ErrorCode::failed, "the loss is not finite", config.arch);
      },
      options, device);
}

BenchmarkRequest benchmark_request(const ParsedOptions& options) {
  BenchmarkRequest request;
  options.fill(request, request.measure);
  request.console = console_request(options);
  request.output = output_request(options);
  if (!request.html.empty()) check_chart_file(request.html);
  request.pictures = options.positionals();
  if (!request.pictures.empty() && request.stage != "end_to_end") {
    throw UsageError("pictures are read with `timed` end_to_end only", request.pictures.front());
  }
  if (request.pictures.empty()) request.pictures = bundled_images();
  request.runs = sweep(options);
  request.threads = model_threads(request.runs.front().run);
  return request;
}

BenchmarkHeader header_of(const BenchmarkRequest& request,
                          const kernels::device::CpuCeiling& ceiling) {
  namespace device = kernels::device;
  const device::GpuInfo gpus = device::gpu_info();
  BenchmarkHeader header{
      {"version", std::string(kVersion)},
      {"build", std::string(kBuildType)},
      {"commit", std::string(kCommit)},
      {"compiler", std::string(kCompiler)},
      {"libtorch", TORCH_VERSION},
      {"cuda", gpus.runtime.empty() ? "none" : gpus.runtime},
      {"driver", gpus.driver.empty() ? "none" : gpus.driver},
      {"cpu", device::cpu_model()},
      {"instruction_sets", join_words(device::names(device::cpu_features()), " ", " ")},
      {"threads", std::to_string(request.threads)},
      {"ceiling", to_json(ceiling)}};
  for (const device::Gpu& gpu : gpus.gpus) header["gpu" + std::to_string(gpu.index)] = gpu.name;
  return header;
}

double peak_tflops(const kernels::device::CpuCeiling& ceiling, const model::Precision& precision) {
  const kernels::device::CpuRate& rate = precision.int8                     ? ceiling.int8
                                         : precision.dtype == at::kBFloat16 ? ceiling.bfloat16
                                                                            : ceiling.float32;
  return rate.best / 1e12;
}

/// Seconds that the kernels' call on `batch` pictures spends on reading memory at least, at the ceiling's rate:
/// the weights of the blocks and the pictures, once, but for as many bytes as all caches could have kept from the
/// call before. 0 where the caches are unknown, or where pictures may leave before the last block.
double least_memory_seconds(const kernels::device::CpuCeiling& ceiling,
                            const model::VitConfig& config, const model::Precision& precision,
                            const image::Size& size, std::int64_t batch) {
  namespace device = kernels::device;
  const std::optional<std::int64_t> shared = device::shared_caches();
  if (!shared || config.leaves_early()) return 0;
  const std::int64_t of_cores = ceiling.threads * device::cache_sizes().l2_bytes;
  const std::size_t of_a_weight = precision.int8 ? 1 : c10::elementSize(precision.dtype);
  const double weights = model::block_weights(config) * static_cast<double>(of_a_weight);
  const auto pictures = static_cast<double>(sizeof(float)) *
                        static_cast<double>(batch * config.in_chans * size.height * size.width);
  const double bytes = weights + pictures - static_cast<double>(*shared + of_cores);
  return std::max(0.0, bytes) / ceiling.memory_read.best;
}

/// A checkpoint's model to measure, or an architecture's with random weights.
std::unique_ptr<Session> open_subject(const BenchmarkRun& combination, bool trains,
                                      const Console& console) {
  ModelRequest request = combination.model;
  request.may_lack_classes = !trains;
  RunRequest run = combination.run;
  run.fastest = !trains;
  auto session =
      Session::of(names_architecture(request) ? random_model(request) : open_model(request),
                  combination.transform, std::move(run), console);
  session->load();
  session->pipeline().halve_batches = false;  // the row says what was measured
  return session;
}

/// "key=value,key=value"
std::string joined(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

/// The size that the transform's `fit` makes of the size asked for.
image::Size fitted(const image::TransformConfig& transform) {
  return image::plan_transform(transform, transform.img_size).output;
}

/// `left_out`: GFLOP of an image that are counted but not computed.
void fill_timings(const Timings& timings, double images_per_call, double left_out,
                  BenchmarkRow& row) {
  const TimingSummary summary = summarise(timings.milliseconds);
  row.ms_p50 = summary.p50;
  row.ms_p90 = summary.p90;
  row.ms_p99 = summary.p99;
  row.ms_mean = summary.mean;
  row.ms_stddev = summary.stddev;
  row.iterations = static_cast<std::int64_t>(timings.milliseconds.size());
  row.warmup = timings.warmup;
  row.peak_memory_bytes = timings.peak_memory_bytes;
  row.images_per_second = 1e3 * images_per_call / summary.p50;
  row.achieved_tflops = row.gflops_per_image * row.images_per_second / 1e3;
  const double computed = (row.gflops_per_image - left_out) * row.images_per_second / 1e3;
  row.pct_of_peak = row.peak_tflops_measured > 0 ? 100 * computed / row.peak_tflops_measured : 0;
}

/// Tensor in, logits out; the tensor lies on the device that computes.
Timings measure_model(Session& subject, const image::Size& size, std::int64_t batch,
                      const MeasureOptions& options) {
  const at::Tensor input = at::randn({batch, subject.config().in_chans, size.height, size.width})
                               .to(subject.classifier().options().device);
  return measure(
      [&] {
        if (!subject.engine().logits(input).isfinite().all().item<bool>())
          throw Error(ErrorCode::failed, "logits are not finite", subject.source().name);
      },
      options, subject.classifier().options().device);
}

/// With -v: how a GPU multiplies; on the processor, where one more call spends its time, by stage,
/// all threads together.
void describe_stages(Session& subject, const image::Size& size, std::int64_t batch,
                     const Console& console) {
  if (!console.verbose) return;
  for (const std::string& product : subject.engine().describe().products)
    console.detail("product: " + product);
  model::inference::StageTimes times;
  if (!subject.engine().collect_stage_times(&times)) return;
  (void)subject.engine().logits(
      at::randn({batch, subject.config().in_chans, size.height, size.width}));
  subject.engine().collect_stage_times(nullptr);
  const double total = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
  std::string line = "stages:";
  for (std::size_t i = 0; i < model::inference::kNumStages; ++i) {
    if (times.seconds[i] <= 0) continue;
    char text[64];
    std::snprintf(text, sizeof text, " %s %.1f %%", model::inference::kStageNames[i].data(),
                  100 * times.seconds[i] / total);
    line += text;
  }
  console.detail(line);
}

/// Encoded files in, top classes out; a call goes through all `files` once.
Timings measure_end_to_end(Session& subject, const std::vector<std::string>& files,
                           const MeasureOptions& options) {
  return measure(
      [&] {
        InputStream inputs(files, false);
        subject.run([&] { return inputs.next(); },
                    [&](const PipelineResult& result) {
                      if (result.error)
                        throw Error(*result.error, result.message, result.input.given);
                      constexpr std::int64_t kTop = 5;
                      (void)result.logits.topk(std::min(kTop, result.logits.size(0)));
                      return !stop_requested();
                    });
      },
      options, subject.classifier().options().device);
}

int check_baseline(const std::vector<BenchmarkRow>& baseline, const std::vector<BenchmarkRow>& rows,
                   double most_percent_slower) {
  const auto slower = slower_rows(baseline, rows, most_percent_slower);
  for (const std::string& line : slower) std::cerr << "check failed: " + printable(line) + '\n';
  return slower.empty() ? kExitOk : kExitCheckFailed;
}

}  // namespace

int run_benchmark(const ParsedOptions& options) {
  const BenchmarkRequest request = benchmark_request(options);
  const Console& console = request.console;
  const std::string& stage = request.stage;
  const std::vector<std::string>& files = request.pictures;
  const std::vector<BenchmarkRun>& runs = request.runs;
  std::vector<BenchmarkRow> baseline;
  if (!request.baseline.empty()) baseline = read_rows(request.baseline);
  OutputFile output(request.output.file);
  kernels::device::ThreadTeam team(request.threads);
  const kernels::device::CpuCeiling ceiling = kernels::device::measure_ceiling(team);
  BenchmarkResult result{header_of(request, ceiling), {}};
  BenchmarkWriter writer(request.output.format, output.stream(), result.header);
  std::map<std::pair<std::string, std::string>, double> peaks;  // of device and precision
  int failed = 0;
  Progress progress("benchmark", std::ssize(runs), console.progress, "rows");
  const auto write_row = [&](const BenchmarkRow& row) {
    progress.hide();
    writer.write(row);
    result.rows.push_back(row);
    progress.advance();
  };
  const auto say_error = [&](const Error& error) {
    progress.hide();
    print_error(error);
    ++failed;
  };
  const auto measure_combination = [&](const BenchmarkRun& combination, BenchmarkRow& row) {
    const RunRequest& run = combination.run;
    // As asked for, should there be no memory for the model itself.
    row.model = combination.model.word;
    row.attention = combination.model.attention;
    row.batch = std::max<std::int64_t>(1, run.batch_size);
    row.precision = run.precision;
    row.device = run.device;
    const auto session = open_subject(combination, stage == "train_step", console);
    Session& subject = *session;
    const model::inference::InferenceOptions& chosen = subject.classifier().options();
    const image::Size size = fitted(subject.transform());
    row.model = subject.source().name;
    row.attention = model::to_text(subject.config().attention);
    row.attention_options = joined(subject.facts().attention_options);
    row.approximations = joined(subject.facts().approximations);
    row.img_size = {size.height, size.width};
    if (row.approximations.empty()) row.top1 = top1_of_card(subject.source(), size).value_or(0);
    row.tokens = subject.engine().num_tokens(size.height, size.width);
    row.precision = chosen.precision.name();
    row.device = chosen.device.str();
    row.kernels = subject.engine().describe().kernels;
    row.gflops_per_image = subject.classifier().gflops_per_image(size.height, size.width);
    const std::pair<std::string, std::string> kind{row.device, row.precision};
    if (!peaks.contains(kind))
      peaks[kind] = chosen.device.is_cpu() ? peak_tflops(ceiling, chosen.precision)
                                           : gpu_peak_tflops(chosen.device, chosen.precision);
    row.peak_tflops_measured = peaks.at(kind);
    const double left_out = model::gflops_left_out(
        subject.config(), subject.config().token_grid_of_pixels(size.height, size.width));
    row.stage = stage;
    console.detail("measuring " + row.key());
    progress.set_detail(row.attention + " " + size_text(row));
    progress.advance(0);
    const bool whole = stage == "end_to_end";
    const bool trains = stage == "train_step";
    const Timings timings =
        whole    ? measure_end_to_end(subject, files, request.measure)
        : trains ? measure_train_step(subject.config(), size, row.batch, chosen.device,
                                      chosen.precision, request.measure)
                 : measure_model(subject, size, row.batch, request.measure);
    if (timings.milliseconds.empty()) return;  // interrupted
    if (trains) row.gflops_per_image *= kPassesOfAStep;
    row.kernels =
        trains ? "modules" : subject.engine().describe().kernels;  // known in full only now
    const bool is_fused = row.kernels.starts_with("fused");
    const bool is_pass = !whole && !trains;
    if (is_pass) describe_stages(subject, size, row.batch, console);
    fill_timings(timings, static_cast<double>(whole ? std::ssize(files) : row.batch),
                 is_fused ? left_out : 0, row);
    if (is_pass && is_fused && chosen.device.is_cpu())
      row.pct_of_memory =
          1e5 / row.ms_p50 *
          least_memory_seconds(ceiling, subject.config(), chosen.precision, size, row.batch);
    write_row(row);
  };
  for (const BenchmarkRun& combination : runs) {
    if (stop_requested()) break;
    BenchmarkRow row;
    const auto note_out_of_memory = [&](const Error& error) {
      say_error(error);
      row.error = name(error.code());
      write_row(row);
    };
    try {
      measure_combination(combination, row);
    } catch (const c10::OutOfMemoryError&) {  // of the measurement's own tensors
      note_out_of_memory(Error(ErrorCode::out_of_memory, "not enough memory", row.device));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::out_of_memory) {
        note_out_of_memory(error);
        continue;
      }
      if (runs.size() == 1) throw;
      say_error(error);  // what the others measured is not lost
      progress.advance();
    }
  }
  progress.finish();
  if (stop_requested()) {
    console.note("note: stopped after " + std::to_string(result.rows.size()) + " measurements");
    if (result.rows.empty()) return exit_code_after_stop(kExitOk);
  }
  writer.finish();
  output.close();
  if (!request.html.empty() && !result.rows.empty()) report_of(result).save(request.html, "`html`");
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return result.rows.empty() ? kExitUsage : kExitSomeInputsFailed;
  return baseline.empty() ? kExitOk
                          : check_baseline(baseline, result.rows, request.most_percent_slower);
}

}  // namespace hydrascope::app
