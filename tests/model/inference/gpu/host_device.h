// Shared by tests of a GPU's engine on the host: tests/stand_in.
#pragma once

#include "model/inference/engine.h"
#include "model/inference/gpu/cuda_plan.h"
#include "model/inference/overlap.h"
#include "tests/stand_in/stand_in.h"
#include "tests/stand_in/torch_device.h"

namespace hydrascope::model::inference {

inline ImageBatch batch_on_device(const at::Tensor& images) {
  ImageBatch batch;
  batch.on_device = images;
  batch.height = images.size(2);
  batch.width = images.size(3);
  return batch;
}

}  // namespace hydrascope::model::inference
