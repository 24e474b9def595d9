// How good the model under training is, on pictures prepared as `evaluate` prepares them.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/pipeline/pipeline.h"
#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/parallel/process_group.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::app {

struct ValidationScore {
  std::int64_t images = 0;  ///< of all processes
  std::int64_t failed = 0;
  double top1 = 0;  ///< percent
  double top5 = 0;
  double loss = 0;           ///< cross-entropy, nats per image
  bool interrupted = false;  ///< a signal came: it is a score of some of the pictures
};

/// Every process takes its share of `pictures`, each with a label; all get the same score. The
/// model is left in training mode. Pictures that cannot be read are left out, and `on_failure` is
/// told of them on the process that met them; Error(empty) on all where none can.
ValidationScore validate_model(model::VisionTransformerImpl& model, c10::Device device,
                               model::training::Autocast autocast,
                               const std::vector<LabelledPicture>& pictures,
                               const PipelineOptions& pipeline,
                               const model::training::FailureReport& on_failure,
                               model::training::ProcessGroup& group);

}  // namespace hydrascope::app
