// hydrascope benchmark: throughput, latency and memory of model x attention x size x batch x
// precision x device x kernels, beside the most that the processor or the GPU was seen to do.
#include "app/benchmark/ceiling.h"
#include "app/benchmark/comparison.h"
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
#include "app/train/measure.h"
#include "kernels/device/cpu_ceiling.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/device/processors.h"
#include "model/config/network_cost.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace hydrascope::app {
namespace {

/// A step of training: the gradients of a product are two products of its size.
constexpr double kPassesOfAStep = 3;

BenchmarkRequest benchmark_request(const ParsedOptions& options) {
  BenchmarkRequest request;
  options.fill(request, request.measure);
  request.console = console_request(options);
  request.output = output_request(options);
  if (!request.compared.empty()) return request;
  if (!request.html.empty()) check_chart_file(request.html);
  request.pictures = options.positionals();
  if (!request.pictures.empty() && request.stage != "end_to_end" && request.stage != "both") {
    throw UsageError("pictures are read with `timed` end_to_end or both only",
                     request.pictures.front());
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

/// --compare A B: no run.
int compare_files(const BenchmarkRequest& request) {
  OutputFile output(request.output.file);
  report_of(compare(read_benchmark(request.compared[0]), read_benchmark(request.compared[1])))
      .write(request.output.format, output.stream(),
             [&](const std::string& note) { request.console.note(note); });
  output.close();
  return kExitOk;
}

int check_baseline(const BenchmarkResult& baseline, const BenchmarkResult& result,
                   double most_percent_slower) {
  const auto slower = slower_rows(baseline, result, most_percent_slower);
  for (const std::string& line : slower) std::cerr << "check failed: " + printable(line) + '\n';
  return slower.empty() ? kExitOk : kExitCheckFailed;
}

}  // namespace

int run_benchmark(const ParsedOptions& options) {
  const BenchmarkRequest request = benchmark_request(options);
  if (!request.compared.empty()) return compare_files(request);
  const Console& console = request.console;
  const std::string& stage = request.stage;
  const std::vector<std::string>& files = request.pictures;
  const std::vector<BenchmarkRun>& runs = request.runs;
  std::optional<BenchmarkResult> baseline;
  if (!request.baseline.empty()) baseline = read_benchmark(request.baseline);
  OutputFile output(request.output.file);
  kernels::device::ThreadTeam team(request.threads);
  const kernels::device::CpuCeiling ceiling = kernels::device::measure_ceiling(team);
  BenchmarkResult result{header_of(request, ceiling), {}};
  BenchmarkWriter writer(request.output.format, output.stream(), result.header);
  std::map<std::pair<std::string, std::string>, double> peaks;  // of device and precision
  int failed = 0;
  const std::int64_t rows_per_run = stage == "both" ? 2 : 1;
  Progress progress("benchmark", std::ssize(runs) * rows_per_run, console.progress, "rows");
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
    const BenchmarkRow described = row;
    for (const char* name : {"model", "end_to_end", "train_step"}) {
      const bool is_one_of_both = stage == "both" && std::string_view(name) != "train_step";
      if (stage != name && !is_one_of_both) continue;
      row = described;
      row.stage = name;
      console.detail("measuring " + row.key());
      progress.set_detail(row.attention + " " + std::to_string(size.height) + "x" +
                          std::to_string(size.width));
      progress.advance(0);
      const bool whole = row.stage == "end_to_end";
      const bool trains = row.stage == "train_step";
      const Timings timings =
          whole    ? measure_end_to_end(subject, files, request.measure)
          : trains ? measure_train_step(subject.config(), size, row.batch, chosen.device,
                                        chosen.precision, request.measure)
                   : measure_model(subject, size, row.batch, request.measure);
      if (trains) {
        row.kernels = "modules";
        row.gflops_per_image *= kPassesOfAStep;
      }
      if (timings.milliseconds.empty()) break;                         // interrupted
      if (!trains) row.kernels = subject.engine().describe().kernels;  // known in full only now
      if (!whole && !trains) describe_stages(subject, size, row.batch, console);
      fill_timings(timings,
                   whole ? static_cast<double>(files.size()) : static_cast<double>(row.batch),
                   !trains && row.kernels.starts_with("fused") ? left_out : 0, row);
      if (!whole && !trains && chosen.device.is_cpu() && row.kernels.starts_with("fused"))
        row.pct_of_memory =
            1e5 / row.ms_p50 *
            least_memory_seconds(ceiling, subject.config(), chosen.precision, size, row.batch);
      write_row(row);
    }
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
      progress.advance(rows_per_run);
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
  return baseline ? check_baseline(*baseline, result, request.most_percent_slower) : kExitOk;
}

}  // namespace hydrascope::app
