// What one step of training costs: forward, loss, backward and the update of a batch.
#pragma once

#include "app/benchmark/measure.h"
#include "model/config/config.h"
#include "model/device.h"
#include "model/image/transform_plan.h"

#include <cstdint>

namespace hydrascope::app {

/// Random images, labels and weights; AdamW; float32 weights, and with bfloat16 products of that
/// type (autocast). Throws Error(invalid_argument) for precisions that train nothing.
Timings measure_train_step(const model::VitConfig& config, const image::Size& size,
                           std::int64_t batch, const c10::Device& device,
                           const model::Precision& precision, const MeasureOptions& options);

}  // namespace hydrascope::app
