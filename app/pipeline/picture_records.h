// From the results of the pipeline to the records of `classify`, and to what those of `visualize`
// have in common with them.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/results/classify_record.h"
#include "model/image/labels.h"
#include "model/image/transform_plan.h"
#include "model/inference/classifier.h"

#include <cstdint>

namespace hydrascope::app {

/// What the records of all inputs of a run say: attention, approximations, device, precision.
InputRecord facts_of_run(const model::Classifier& classifier);

/// What became of one input: its name, sizes and views, its error.
void add_result(InputRecord& record, const PipelineResult& result,
                const image::TransformConfig& transform);

class ClassifyRecords {
 public:
  /// All three must outlive it.
  ClassifyRecords(const model::Classifier& classifier, const image::TransformConfig& transform,
                  const image::Labels& labels);

  /// With the `topk` best classes.
  [[nodiscard]] ClassifyRecord of(const PipelineResult& result, std::int64_t topk) const;

 private:
  const model::Classifier& classifier_;
  const image::TransformConfig& transform_;
  const image::Labels& labels_;
  InputRecord run_;
};

}  // namespace hydrascope::app
