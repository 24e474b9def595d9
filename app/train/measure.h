// Timing of repeated work, memory at its peak, and the machine's own ceiling.
#pragma once

#include "app/benchmark/sweep.h"
#include "model/config/config.h"
#include "model/device.h"
#include "model/image/transform_plan.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::app {

struct Timings {
  std::vector<double> milliseconds;  ///< one per call
  std::int64_t warmup = 0;           ///< calls before
  std::int64_t peak_memory_bytes = 0;
};

/// Calls `once`, which must have finished its work when it returns. Memory is the process's largest
/// resident size during the measured calls on the CPU, the allocator's peak on a GPU.
Timings measure(const std::function<void()>& once, const MeasureOptions& options,
                const c10::Device& device);

/// TFLOP/s of LibTorch's large matrix product (4096 x 768 x 3072, random numbers, best of some) in this
/// precision on a GPU. The processor's ceiling: kernels/device/cpu_ceiling.h.
double gpu_peak_tflops(const c10::Device& device, const model::Precision& precision);

// The parts of one step of training: forward, loss, backward and the update of a batch.

/// Random images, labels and weights; AdamW; float32 weights, and with bfloat16 products of that
/// type (autocast). Throws Error(invalid_argument) for precisions that train nothing.
Timings measure_train_step(const model::VitConfig& config, const image::Size& size,
                           std::int64_t batch, const c10::Device& device,
                           const model::Precision& precision, const MeasureOptions& options);

}  // namespace hydrascope::app
