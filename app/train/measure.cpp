#include "app/train/measure.h"

#include "app/benchmark/comparison.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "kernels/stopwatch.h"
#include "model/training/autocast.h"
#include "model/training/losses.h"
#include "model/training/optimizer.h"
#include "model/training/parameter_groups.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <malloc.h>
#include <numeric>
#include <string>
#include <vector>

#ifdef __GLIBC__
#endif

namespace hydrascope::app {

namespace {

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

// The product that a GPU's ceiling is measured with: rows x inner times inner x columns.
constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kInner = 768;
constexpr std::int64_t kColumns = 3072;
constexpr int kRounds = 8;

}  // namespace

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

double gpu_peak_tflops(const c10::Device& device, const model::Precision& precision) {
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

}  // namespace hydrascope::app
