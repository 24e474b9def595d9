// hydrascope benchmark: throughput, latency and memory of model x attention x size x batch x
// precision x device x kernels, beside the rate of a large matrix product in the same run.
#include "app/assets.h"
#include "app/benchmark/chart.h"
#include "app/benchmark/comparison.h"
#include "app/benchmark/measure.h"
#include "app/benchmark/row.h"
#include "app/benchmark/sweep.h"
#include "app/benchmark/train_step.h"
#include "app/build_info.h"
#include "app/command.h"
#include "app/console.h"
#include "app/inputs.h"
#include "app/model_source.h"
#include "app/signal_stop.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/error.h"
#include "model/architectures.h"
#include "model/network_cost.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

namespace hydrascope::app {
namespace {

/// Of a step of training: the gradients of a product are two products of its size.
constexpr double kPassesOfAStep = 3;

BenchmarkHeader header_of(const ParsedOptions& options) {
  namespace device = kernels::device;
  std::string instruction_sets;
  for (const std::string& name : device::names(device::cpu_features()))
    instruction_sets += (instruction_sets.empty() ? "" : " ") + name;
  const device::GpuInfo gpus = device::gpu_info();
  BenchmarkHeader header{{"version", std::string(kVersion)},
                         {"build", std::string(kBuildType)},
                         {"commit", std::string(kCommit)},
                         {"compiler", std::string(kCompiler)},
                         {"libtorch", TORCH_VERSION},
                         {"cuda", gpus.runtime.empty() ? "none" : gpus.runtime},
                         {"driver", gpus.driver.empty() ? "none" : gpus.driver},
                         {"cpu", device::cpu_model()},
                         {"instruction_sets", instruction_sets},
                         {"threads", std::to_string(model_threads(options))}};
  for (const device::Gpu& gpu : gpus.gpus) header["gpu" + std::to_string(gpu.index)] = gpu.name;
  return header;
}

/// A model to measure: a checkpoint's, or an architecture's with random weights.
struct Subject {
  std::string name;
  model::VitConfig config;
  image::TransformConfig transform;
  model::Classifier classifier;
};

Subject make_subject(const ParsedOptions& run) {
  const std::string& word = run.text("model");
  std::error_code ignored;
  if (model::find_architecture(word) && run.text("checkpoint").empty() && !bundled_model(word) &&
      !std::filesystem::exists(word, ignored)) {
    const ModelSource source = random_model(run, word);
    return {word, source.config, resolve_transform(run, source).config,
            make_classifier(run, source)};
  }
  const ModelSource source = open_model(run);
  const image::TransformConfig transform = resolve_transform(run, source).config;
  return {source.name, source.config, transform, make_classifier(run, source)};
}

/// "key=value,key=value"
std::string joined(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

/// What the transform's `fit` makes of the size asked for.
image::Size fitted(const image::TransformConfig& transform) {
  return image::plan_transform(transform, transform.img_size).output;
}

MeasureOptions measure_options(const ParsedOptions& options) {
  MeasureOptions measure;
  if (options.given("warmup")) measure.warmup = options.integer("warmup");
  if (options.given("iters")) measure.iterations = options.integer("iters");
  if (options.given("duration")) measure.duration = options.number("duration");
  return measure;
}

void fill_timings(const Timings& timings, double images_per_call, BenchmarkRow& row) {
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
  row.pct_of_peak =
      row.peak_tflops_measured > 0 ? 100 * row.achieved_tflops / row.peak_tflops_measured : 0;
}

/// Tensor in, logits out; the tensor lies on the device that computes.
Timings measure_model(Subject& subject, const image::Size& size, std::int64_t batch,
                      const MeasureOptions& options) {
  const at::Tensor input =
      at::randn({batch, 3, size.height, size.width}).to(subject.classifier.options().device);
  return measure(
      [&] {
        if (!subject.classifier.logits(input).isfinite().all().item<bool>())
          throw Error(ErrorCode::failed, "logits are not finite", subject.name);
      },
      options, subject.classifier.options().device);
}

/// With -v: where one more call spends its time, by stage, all threads together.
void describe_stages(Subject& subject, const image::Size& size, std::int64_t batch,
                     const Console& console) {
  if (!console.verbose) return;
  model::inference::StageTimes times;
  if (!subject.classifier.collect_stage_times(&times)) return;
  (void)subject.classifier.logits(at::randn({batch, 3, size.height, size.width}));
  subject.classifier.collect_stage_times(nullptr);
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
Timings measure_end_to_end(Subject& subject, const ParsedOptions& run,
                           const std::vector<std::string>& files, const MeasureOptions& options) {
  ResolvedTransform transform;
  transform.config = subject.transform;
  PipelineOptions pipeline = pipeline_options(run, transform, /*apply_exif=*/true);
  pipeline.halve_batches = false;  // the row says what was measured
  return measure(
      [&] {
        std::istringstream nothing;
        InputStream inputs(files, false, nothing);
        run_pipeline([&] { return inputs.next(); }, subject.classifier, pipeline,
                     [&](const PipelineResult& result) {
                       if (result.error)
                         throw Error(*result.error, result.message, result.input.given);
                       constexpr std::int64_t kTop = 5;
                       (void)result.logits.topk(std::min(kTop, result.logits.size(0)));
                       return !stop_requested();
                     });
      },
      options, subject.classifier.options().device);
}

/// --compare A B: no run.
int compare_files(const ParsedOptions& options) {
  const std::vector<std::string>& files = options.texts("compare");
  OutputFile output(options.text("output"));
  write(compare(read_benchmark(files[0]), read_benchmark(files[1])),
        choose_benchmark_format(options.text("format"), options.text("output")), output.stream());
  output.close();
  return kExitOk;
}

int check_baseline(const ParsedOptions& options, const BenchmarkResult& result) {
  if (!options.given("baseline")) return kExitOk;
  const auto slower = slower_rows(read_benchmark(options.text("baseline")), result,
                                  options.number("fail-if-slower"));
  for (const std::string& line : slower) std::cerr << "check failed: " << line << '\n';
  return slower.empty() ? kExitOk : kExitCheckFailed;
}

int run_benchmark(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  if (!options.texts("compare").empty()) return compare_files(options);
  if (options.given("plot")) check_chart_file(options.text("plot"));
  const Console console(options);
  const std::string& stage = options.text("stage");
  std::vector<std::string> files = options.positionals();
  if (files.empty()) files = bundled_images();
  OutputFile output(options.text("output"));
  BenchmarkResult result{header_of(options), {}};
  BenchmarkWriter writer(choose_benchmark_format(options.text("format"), options.text("output")),
                         output.stream(), result.header);
  std::map<std::pair<std::string, std::string>, double> peaks;  // of device and precision
  int failed = 0;
  const auto measure_combination = [&](const std::vector<std::string>& words, BenchmarkRow& row) {
    const ParsedOptions run = parse(single_run_spec(), words);
    // As asked for, should there be no memory for the model itself.
    row.model = run.text("model");
    row.attention = run.text("attn");
    row.batch = run.given("batch-size") ? run.integer("batch-size") : 1;
    row.precision = run.text("precision");
    row.device = run.text("device");
    Subject subject = make_subject(run);
    const model::ClassifierOptions& chosen = subject.classifier.options();
    const image::Size size = fitted(subject.transform);
    row.model = subject.name;
    row.attention = model::to_text(subject.config.attention);
    row.attention_options = joined(model::attention_options(subject.config.attention));
    row.approximations = joined(subject.classifier.approximations());
    row.img_size = {size.height, size.width};
    row.tokens = subject.classifier.num_tokens(size.height, size.width);
    row.precision = chosen.precision.name();
    row.device = chosen.device.str();
    row.kernels = subject.classifier.kernels();
    row.gflops_per_image = subject.classifier.gflops_per_image(size.height, size.width);
    const std::pair<std::string, std::string> kind{row.device, row.precision};
    if (!peaks.contains(kind)) peaks[kind] = measured_peak_tflops(chosen.device, chosen.precision);
    row.peak_tflops_measured = peaks.at(kind);
    const BenchmarkRow described = row;
    for (const char* name : {"model", "end_to_end", "train_step"}) {
      const bool is_one_of_both = stage == "both" && std::string_view(name) != "train_step";
      if (stage != name && !is_one_of_both) continue;
      row = described;
      row.stage = name;
      console.detail("measuring " + row.key());
      const bool whole = row.stage == "end_to_end";
      const bool trains = row.stage == "train_step";
      const Timings timings =
          whole    ? measure_end_to_end(subject, run, files, measure_options(options))
          : trains ? measure_train_step(subject.config, size, row.batch, chosen.device,
                                        chosen.precision, measure_options(options))
                   : measure_model(subject, size, row.batch, measure_options(options));
      if (trains) {
        row.kernels = "modules";
        row.gflops_per_image *= kPassesOfAStep;
      }
      if (timings.milliseconds.empty()) break;                  // interrupted
      if (!trains) row.kernels = subject.classifier.kernels();  // known in full only now
      if (!whole && !trains) describe_stages(subject, size, row.batch, console);
      fill_timings(timings,
                   whole ? static_cast<double>(files.size()) : static_cast<double>(row.batch), row);
      writer.write(row);
      result.rows.push_back(row);
    }
  };
  const std::vector<std::vector<std::string>> runs = sweep(options);
  for (const std::vector<std::string>& words : runs) {
    if (stop_requested()) break;
    BenchmarkRow row;
    const auto note_out_of_memory = [&](const Error& error) {
      print_error(error);
      row.error = name(error.code());
      writer.write(row);
      result.rows.push_back(row);
      ++failed;
    };
    try {
      measure_combination(words, row);
    } catch (const c10::OutOfMemoryError&) {  // of the measurement's own tensors
      note_out_of_memory(Error(ErrorCode::out_of_memory, "not enough memory", row.device));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::out_of_memory) {
        note_out_of_memory(error);
        continue;
      }
      if (runs.size() == 1) throw;
      print_error(error);  // what the others measured is not lost
      ++failed;
    }
  }
  writer.finish();
  output.close();
  if (options.given("plot") && !result.rows.empty()) write_chart(result, options.text("plot"));
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return result.rows.empty() ? kExitUsage : kExitSomeInputsFailed;
  return check_baseline(options, result);
}

std::vector<Option> benchmark_output_options() {
  std::vector<Option> list = output_options();
  for (Option& option : list) {
    if (option.name == "format") option.choices.emplace_back("md");
  }
  return list;
}

/// A shared option that takes a list here.
Option as_list(Option option) {
  option.comma_list = true;
  return option;
}

std::vector<Option> swept_options() {
  std::vector<Option> list = join({model_options(), runtime_options()});
  for (Option& option : list) {
    for (const char* name :
         {"model", "batch-size", "precision", "device", "kernels", "keep-tokens"}) {
      if (option.name == name) option = as_list(option);
    }
    if (option.name == "attn") option.repeatable = true;
  }
  for (Option& option : preprocessing_options()) {
    if (option.name == "img-size") list.push_back(as_list(option));
    if (option.name == "fit") list.push_back(option);
  }
  return list;
}

}  // namespace

Command benchmark_command() {
  CommandSpec spec;
  spec.name = "benchmark";
  spec.aliases = {"bench"};
  spec.summary = "throughput, latency, memory; any parameter may be a comma list";
  spec.positionals = "[IMAGE...]";
  spec.options =
      join({swept_options(),
            {{.name = "stage",
              .help = "tensor in, logits out; encoded files in, top classes out (the bundled "
                      "photographs without IMAGE); both; or a step of training",
              .default_value = "model",
              .choices = {"model", "end_to_end", "both", "train_step"},
              .group = "Measurement"},
             {.name = "warmup",
              .kind = ValueKind::integer,
              .placeholder = "N",
              .help = "runs before",
              .default_note = "until the times settle",
              .minimum = 0,
              .group = "Measurement"},
             {.name = "iters",
              .kind = ValueKind::integer,
              .placeholder = "N",
              .help = "measured runs",
              .default_note = "at least 5, and until --duration",
              .minimum = 1,
              .group = "Measurement"},
             {.name = "duration",
              .kind = ValueKind::number,
              .placeholder = "S",
              .help = "seconds to measure for",
              .default_value = "2",
              .minimum = 0,
              .group = "Measurement"},
             {.name = "preset",
              .help = "1080p: softmax, Hedgehog, Hydra and both mixed at 1080x1920",
              .choices = {"1080p"},
              .group = "Measurement"},
             {.name = "plot",
              .placeholder = "FILE.html|.svg",
              .help = "also draw images/s and memory against image size",
              .group = "Output",
              .completes_files = true},
             {.name = "compare",
              .placeholder = "A.json B.json",
              .help = "print the ratios of two results with their 95 % intervals and stop",
              .values = 2,
              .group = "Comparison",
              .completes_files = true},
             {.name = "baseline",
              .placeholder = "FILE",
              .help = "exit with 4 when a combination got slower than in this result",
              .group = "Comparison",
              .completes_files = true},
             {.name = "fail-if-slower",
              .kind = ValueKind::number,
              .placeholder = "PCT",
              .help = "by more than this many percent of its images/s",
              .default_value = "5",
              .minimum = 0,
              .group = "Comparison"}},
            benchmark_output_options(),
            general_options()});
  spec.examples = {
      "hydrascope benchmark --attn softmax,hydra --img-size 224,512,1088x1920 --plot speed.html",
      "hydrascope benchmark --preset 1080p -m deit_base_patch16_224 --format md",
      "hydrascope benchmark --compare before.json after.json",
  };
  return {std::move(spec), run_benchmark};
}

}  // namespace hydrascope::app
